// Calls that stand near each other in a step and that one kernel can do together: one pass over memory instead of
// several, one launch instead of many. Every number is computed as the calls one by one would, so bits stay.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "device/kernel.h"
#include "graph/op.h"

namespace neap {

// A call and where its tensors lie.
struct BoundCall {
  OpCall call;
  Buffers buffers;
  std::int64_t workspace_bytes = 0;
  std::uint32_t read_once = 0;  // bit i: exactly one call reads output i, and nobody else does
};
using BoundCalls = std::span<const BoundCall* const>;
using MergedRun = std::function<void(Stream&)>;

struct MergeRule {
  enum class At : std::uint8_t { kFirst, kLast };

  bool (*starts)(const BoundCall& call) = nullptr;
  // May `next` go along with these? They are in program order.
  bool (*takes)(BoundCalls calls, const BoundCall& next) = nullptr;
  MergedRun (*make)(BoundCalls calls) = nullptr;
  std::size_t most = 2;   // calls
  std::size_t reach = 4;  // other calls that may stand between two of them
  // In whose place the merged calls run.
  At at = At::kFirst;
  // Elements are read before any of the same place is written, so that a result may lie exactly where an operand of an
  // earlier call lay. Without it they may not touch at all.
  bool by_element = false;
  // Output 0 of the first call is not written once another has joined it.
  bool elides_first = false;
};

// In the order in which they are tried. Null in a program without CUDA.
[[gnu::weak]] std::span<const MergeRule> merge_rules_cuda();

}  // namespace neap
