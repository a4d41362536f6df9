#include "remat/uses.h"

namespace neap::remat {

Uses::Uses(const Problem& problem) : start_(problem.tensors.size() + 1) {
  std::vector<bool> is_kept(problem.tensors.size());
  for (const TensorIndex t : problem.keep) is_kept[t] = true;
  for (const Op& op : problem.ops) {
    for (const TensorIndex t : op.inputs) ++start_[t + 1];
  }
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    if (is_kept[t]) ++start_[t + 1];
    if (problem.tensors[t].op == kNoOp) input_bytes_ += problem.tensors[t].bytes;
    start_[t + 1] += start_[t];
  }
  list_.resize(start_.back());
  std::vector<std::uint32_t> at(start_.begin(), start_.end() - 1);
  const auto end = static_cast<OpIndex>(problem.ops.size());
  for (OpIndex i = 0; i < end; ++i) {
    for (const TensorIndex t : problem.ops[i].inputs) list_[at[t]++] = i;
  }
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    if (is_kept[t]) list_[at[t]++] = end;
  }
}

}  // namespace neap::remat
