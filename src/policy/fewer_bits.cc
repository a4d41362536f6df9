#include "policy/fewer_bits.h"

#include <algorithm>
#include <functional>

#include "neap/error.h"
#include "policy/spill.h"

namespace neap {
namespace {

using precision::Level;

// Bytes that are free meanwhile for each nanosecond of the codec.
double worth_of(const PlanningProblem& p, TensorId id) {
  const Level level = level_of(p, id);
  const std::int64_t elements = p.graph.at(id).type.elements();
  const auto at = static_cast<std::size_t>(level);
  const double ns = static_cast<double>(elements) * (p.costs.codec.encode[at] + p.costs.codec.decode[at]);
  const std::int64_t saved = p.graph.at(id).type.bytes() - precision::encoded_bytes(level, elements);
  return static_cast<double>(saved) / std::max(ns, 1e-3);
}

}  // namespace

LevelSearch::LevelSearch(const PlanningProblem& problem, Decisions base)
    : p_(problem), base_(std::move(base)), views_(find_views(problem.graph)) {
  require(has_choice_of_levels(p_), "levels to choose from");
  base_.levels = {};
  for (const TensorId id : spill_order(p_.graph, p_.costs, base_)) {  // the longest wait first
    if (level_of(p_, id) != Level::kFp32) order_.push_back(id);
  }
  std::ranges::stable_sort(order_, std::greater{}, [&](TensorId id) { return worth_of(p_, id); });
}

Decisions LevelSearch::with(std::size_t count) const {
  Decisions out = base_;
  out.levels = *p_.levels;
  if (count >= order_.size()) return out;  // the small ones that are no part of the order, too
  out.levels.of.assign(p_.graph.tensors.size(), Level::kFp32);
  for (std::size_t i = 0; i < count; ++i) out.levels.of[order_[i].index] = level_of(p_, order_[i]);
  return out;
}

// By live bytes, without packing; what this says is planned before it is believed.
std::size_t LevelSearch::fewest(std::int64_t budget) const {
  std::size_t low = 0;
  std::size_t high = order_.size();
  while (low < high) {
    const std::size_t count = low + (high - low) / 2;
    if (footprint(p_.graph, views_, p_.costs, with(count)).bytes <= budget) {
      high = count;
    } else {
      low = count + 1;
    }
  }
  return low;
}

std::optional<Plan> LevelSearch::fastest(std::int64_t budget) const {
  constexpr int kMisses = 8;  // packing is a hair above the bound
  std::size_t count = fewest(budget);
  for (int miss = 0; miss < kMisses; ++miss) {
    Plan plan = std::get<Plan>(make_plan(p_.graph, p_.costs, with(count), kNoBudget, p_.layout));
    if (plan.peak_bytes <= budget) return plan;
    if (count >= order_.size()) return std::nullopt;
    count = std::min(count + 1 + static_cast<std::size_t>(miss), order_.size());
  }
  return std::nullopt;
}

}  // namespace neap
