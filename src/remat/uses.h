// Who reads what, by program order: the part of a problem that every solver looks up all the time.
#pragma once

#include <span>
#include <vector>

#include "remat/problem.h"

namespace neap::remat {

class Uses {
 public:
  explicit Uses(const Problem& problem);

  // Ops that read the tensor, ascending; the number of ops stands at the end when it is to be kept.
  std::span<const OpIndex> of(TensorIndex t) const { return {list_.data() + start_[t], list_.data() + start_[t + 1]}; }
  std::int64_t input_bytes() const { return input_bytes_; }

 private:
  std::vector<std::uint32_t> start_;
  std::vector<OpIndex> list_;
  std::int64_t input_bytes_ = 0;
};

}  // namespace neap::remat
