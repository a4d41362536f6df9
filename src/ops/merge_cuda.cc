#include "ops/merge_cuda.h"

#include <array>

namespace neap {

// Sums first: what stands between their calls moves closer.
std::span<const MergeRule> merge_rules_cuda() {
  static const std::array kRules = {ops::kSumThenNorm, ops::kNormGradThenSum, ops::kCasts, ops::kAdamSteps};
  return kRules;
}

}  // namespace neap
