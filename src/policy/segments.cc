// Checkpoints at fixed distances: every layer, or the best of a few distances about the square root of their number.
#include <algorithm>
#include <cmath>

#include "plan/simulate.h"
#include "policy/layers.h"

namespace neap {
namespace {

class Segments : public Policy {
 public:
  Plan smallest(const PlanningProblem& p) const override {
    std::vector<Plan> plans = plans_of(p);
    return *std::min_element(plans.begin(), plans.end(),
                             [](const Plan& a, const Plan& b) { return a.peak_bytes < b.peak_bytes; });
  }

  std::optional<Plan> within(const PlanningProblem& p, std::int64_t budget) const override {
    std::optional<Plan> best;
    double best_ms = 0;
    for (Plan& plan : plans_of(p)) {
      const double ms = simulate(plan, p.costs).ms;
      if (plan.peak_bytes > budget || (best && best_ms <= ms)) continue;
      best_ms = ms;
      best = std::move(plan);
    }
    return best;
  }

 protected:
  virtual std::vector<int> distances(std::size_t layers) const = 0;

 private:
  std::vector<Plan> plans_of(const PlanningProblem& p) const {
    const Recompute r(p);
    const std::vector<Layer> layers = find_layers(r);
    std::vector<Plan> out = {plan_of(r, r.store_all)};
    for (const int n : distances(layers.size())) {
      out.push_back(plan_of(r, retention_of(r, layers, Granularities(layers.size(), n))));
    }
    return out;
  }
};

class EveryLayer final : public Segments {
 public:
  std::string_view name() const override { return "every-layer"; }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kAgain, "keeps what goes from layer to layer, and nothing inside"};
  }
  std::vector<int> distances(std::size_t) const override { return {1}; }
};

class Sqrt final : public Segments {
 public:
  std::string_view name() const override { return "sqrt"; }
  std::optional<PolicyRule> rule() const override {
    return PolicyRule{Means::kAgain, "keeps what goes from one run of layers to the next, and nothing inside"};
  }
  std::vector<int> distances(std::size_t layers) const override {
    const int root = static_cast<int>(std::lround(std::sqrt(static_cast<double>(layers))));
    std::vector<int> out;
    for (int n = std::max(1, root - 1); n <= root + 1; ++n) out.push_back(n);
    return out;
  }
};

}  // namespace

const Policy& every_layer_policy() {
  static const EveryLayer policy;
  return policy;
}

const Policy& sqrt_policy() {
  static const Sqrt policy;
  return policy;
}

}  // namespace neap
