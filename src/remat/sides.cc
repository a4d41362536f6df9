#include "remat/sides.h"

namespace neap::remat {

std::vector<Side> sides_of(const Problem& problem, const Uses& uses, OpIndex k) {
  std::vector<Side> side(problem.ops.size(), Side::kNeither);
  side[k] = Side::kSelf;
  for (OpIndex op = k + 1; op-- > 0;) {
    if (side[op] != Side::kBefore && op != k) continue;
    for (const TensorIndex t : problem.ops[op].inputs) {
      if (problem.tensors[t].op != kNoOp) side[problem.tensors[t].op] = Side::kBefore;
    }
  }
  for (OpIndex op = k; op < problem.ops.size(); ++op) {
    if (side[op] != Side::kAfter && op != k) continue;
    for (const TensorIndex t : problem.ops[op].outputs) {
      for (const OpIndex reader : uses.of(t)) {
        if (reader < problem.ops.size()) side[reader] = Side::kAfter;
      }
    }
  }
  return side;
}

}  // namespace neap::remat
