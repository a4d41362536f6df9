#include "remat/flow.h"

#include <algorithm>

namespace neap::remat {

void FlowNetwork::add_edge(std::uint32_t from, std::uint32_t to, double capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<std::uint32_t>(edges_.size() - 1);
  tiny_ = std::max(tiny_, capacity < 1e290 ? capacity * 1e-12 : 0);
}

bool FlowNetwork::find_levels(std::uint32_t source, std::uint32_t sink) {
  level_.assign(first_.size(), kNone);
  level_[source] = 0;
  std::vector<std::uint32_t> queue = {source};
  for (std::size_t i = 0; i < queue.size() && level_[sink] == kNone; ++i) {
    for (std::uint32_t e = first_[queue[i]]; e != kNone; e = edges_[e].next) {
      ++steps_;
      if (edges_[e].left <= tiny_ || level_[edges_[e].to] != kNone) continue;
      level_[edges_[e].to] = level_[queue[i]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[sink] != kNone;
}

// One path along the levels; 0: there is none left.
double FlowNetwork::push_path(std::uint32_t source, std::uint32_t sink) {
  path_.clear();
  std::uint32_t node = source;
  while (node != sink) {
    std::uint32_t& e = at_[node];
    while (e != kNone && (edges_[e].left <= tiny_ || level_[edges_[e].to] != level_[node] + 1)) {
      e = edges_[e].next;
      ++steps_;
    }
    if (e != kNone) {
      path_.push_back(e);
      node = edges_[e].to;
      continue;
    }
    if (path_.empty()) return 0;
    node = edges_[path_.back() ^ 1U].to;
    path_.pop_back();
    at_[node] = edges_[at_[node]].next;
  }
  double amount = 1e300;
  for (const std::uint32_t e : path_) amount = std::min(amount, edges_[e].left);
  for (const std::uint32_t e : path_) {
    edges_[e].left -= amount;
    edges_[e ^ 1U].left += amount;
  }
  steps_ += static_cast<std::int64_t>(path_.size());
  return amount;
}

double FlowNetwork::push(std::uint32_t source, std::uint32_t sink, std::int64_t work) {
  double sum = 0;
  steps_ = 0;
  while (steps_ < work && find_levels(source, sink)) {
    at_ = first_;
    while (steps_ < work) {
      const double amount = push_path(source, sink);
      if (amount <= 0) break;
      sum += amount;
    }
  }
  return sum;
}

std::vector<bool> FlowNetwork::source_side(std::uint32_t source) const {
  std::vector<bool> out(first_.size());
  std::vector<std::uint32_t> stack = {source};
  out[source] = true;
  while (!stack.empty()) {
    const std::uint32_t node = stack.back();
    stack.pop_back();
    for (std::uint32_t e = first_[node]; e != kNone; e = edges_[e].next) {
      if (edges_[e].left <= tiny_ || out[edges_[e].to]) continue;
      out[edges_[e].to] = true;
      stack.push_back(edges_[e].to);
    }
  }
  return out;
}

}  // namespace neap::remat
