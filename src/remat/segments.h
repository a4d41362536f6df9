// Policies that decide once, before the program runs: each names the tensors that leave after their last forward read.
// What backward needs of them is made again when it is first read, and then stays.
#pragma once

#include <vector>

#include "remat/uses.h"

namespace neap::remat {

// The op at which the eager schedule has the most bytes in use: forward ends about there.
OpIndex turn_of(const Problem& problem, const Uses& uses);

// Runs for which the tensors of `is_dropped`, as far as they can be made again, are absent between their last read up
// to `turn` and the first one behind.
std::vector<OpIndex> runs_with_drops(const Problem& problem, OpIndex turn, const std::vector<bool>& is_dropped);

// Checkpoints between layers; `group` layers to a segment, 0: about the square root of their number.
std::vector<OpIndex> segment_runs(const Problem& problem, const Uses& uses, std::size_t group);

// Drops by bytes freed per added time, until the budget holds or nothing is left to drop: then the smallest found.
std::vector<OpIndex> greedy_runs(const Problem& problem, const Uses& uses, std::int64_t budget);

// Nearly every forward op hands one tensor on, and nothing else passes it by.
bool is_chain(const Problem& problem, const Uses& uses);

// The peak of these runs with each tensor freed as early as can be.
std::int64_t peak_of(const Problem& problem, const Uses& uses, const std::vector<OpIndex>& runs);

}  // namespace neap::remat
