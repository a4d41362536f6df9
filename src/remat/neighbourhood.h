// DTR's estimate of what bringing a tensor back takes: its op, and the evicted tensors around it. Neighbouring evicted
// tensors form sets in a union-find that knows each set's sum; a tensor that comes back takes its own part out of the
// sum, while the set stays as it is (the published approximation: sets cannot be split).
#pragma once

#include <vector>

#include "remat/uses.h"

namespace neap::remat {

class Neighbourhood {
 public:
  Neighbourhood(const Problem& problem, const Uses& uses);
  void went(TensorIndex t);
  void came_back(TensorIndex t);
  double cost(TensorIndex t);

 private:
  std::uint32_t find(std::uint32_t set);
  void join(std::uint32_t a, std::uint32_t b);
  template <class F>
  void for_neighbours(TensorIndex t, F f) const;

  const Problem& p_;
  const Uses& uses_;
  std::vector<bool> is_gone_;
  std::vector<std::uint32_t> set_;  // per tensor
  std::vector<std::uint32_t> parent_;
  std::vector<double> sum_;
  std::vector<std::uint32_t> seen_;  // per set: the last question that counted it
  std::uint32_t question_ = 0;
};

}  // namespace neap::remat
