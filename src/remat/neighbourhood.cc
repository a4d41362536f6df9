#include "remat/neighbourhood.h"

namespace neap::remat {

Neighbourhood::Neighbourhood(const Problem& problem, const Uses& uses)
    : p_(problem), uses_(uses), is_gone_(problem.tensors.size()), set_(problem.tensors.size()) {}

std::uint32_t Neighbourhood::find(std::uint32_t set) {
  while (parent_[set] != set) {
    parent_[set] = parent_[parent_[set]];
    set = parent_[set];
  }
  return set;
}

void Neighbourhood::join(std::uint32_t a, std::uint32_t b) {
  a = find(a);
  b = find(b);
  if (a == b) return;
  parent_[b] = a;
  sum_[a] += sum_[b];
}

template <class F>
void Neighbourhood::for_neighbours(TensorIndex t, F f) const {
  for (const TensorIndex in : p_.ops[p_.tensors[t].op].inputs) {
    if (is_gone_[in]) f(in);
  }
  for (const OpIndex op : uses_.of(t)) {
    if (op == p_.ops.size()) break;
    for (const TensorIndex out : p_.ops[op].outputs) {
      if (is_gone_[out]) f(out);
    }
  }
}

void Neighbourhood::went(TensorIndex t) {
  is_gone_[t] = true;
  const auto own = static_cast<std::uint32_t>(parent_.size());
  parent_.push_back(own);
  sum_.push_back(p_.ops[p_.tensors[t].op].ms);
  seen_.push_back(0);
  set_[t] = own;
  for_neighbours(t, [&](TensorIndex other) { join(own, set_[other]); });
}

void Neighbourhood::came_back(TensorIndex t) {
  if (!is_gone_[t]) return;
  is_gone_[t] = false;
  sum_[find(set_[t])] -= p_.ops[p_.tensors[t].op].ms;
}

double Neighbourhood::cost(TensorIndex t) {
  ++question_;
  double sum = p_.ops[p_.tensors[t].op].ms;
  for_neighbours(t, [&](TensorIndex other) {
    const std::uint32_t set = find(set_[other]);
    if (seen_[set] == question_) return;
    seen_[set] = question_;
    sum += sum_[set];
  });
  return sum;
}

}  // namespace neap::remat
