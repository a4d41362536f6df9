// Finds calls of a step that one kernel can do together (ops/merge.h) and that may move next to each other: nothing
// between them reads or writes what they write, or writes what they read. Addresses decide, so each plan has its own.
#pragma once

#include <optional>
#include <vector>

#include "ops/merge.h"

namespace neap {

// One launch of a step, or several: their numbers, in the order in which they run if `run` is empty.
struct MergedCalls {
  std::vector<std::size_t> calls;
  MergedRun run;
};

// `calls` are those of a step; none: nothing may move across it.
std::vector<MergedCalls> merge_calls(const std::vector<std::optional<BoundCall>>& calls,
                                     std::span<const MergeRule> rules);

}  // namespace neap
