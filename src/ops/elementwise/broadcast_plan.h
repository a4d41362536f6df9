// How the elements of several dense inputs line up with a dense output under numpy's rule.
#pragma once

#include <cstdint>

namespace neap {

struct BroadcastPlan {
  static constexpr int kMaxRank = 16;
  static constexpr int kMaxInputs = 4;

  int rank = 1;  // axes that all inputs cross in the same way are merged
  int inputs = 0;
  std::int64_t count = 1;
  std::int64_t dims[kMaxRank] = {1};
  // In elements; 0 where the input is repeated. Along the last axis 0 or 1.
  std::int64_t strides[kMaxInputs][kMaxRank] = {};

  bool is_repeated(int input) const { return strides[input][rank - 1] == 0; }
};

}  // namespace neap
