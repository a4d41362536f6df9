#include "train/outside_weights.h"

#include "neap/error.h"
#include "plan/validate.h"
#include "train/setup.h"
#include "train/spilling.h"

namespace neap {

OutsideWeights::OutsideWeights(const Program& program, const TrainOptions& options, const Device& device)
    : program_(program), options_(options), device_(device), costs_(program.costs) {
  guess_times(program.graph, device.kind(), costs_);
}

Plan OutsideWeights::smallest() const {
  const PlanningProblem problem{
      .graph = program_.graph, .costs = costs_, .link = guessed_link(options_, device_.kind())};
  return WeightSearch(problem).smallest().plan;
}

WeightPlan OutsideWeights::plan_for(std::int64_t budget) const {
  std::int64_t bytes = 0;
  for (const Tensor& t : program_.graph.tensors) bytes += is_state(t.role) ? t.type.bytes() : 0;
  Link link = guessed_link(options_, device_.kind());
  link.read_bytes_per_ms = read_bytes_per_ms(device_, options_, bytes, link.read_bytes_per_ms);
  const PlanningProblem problem{.graph = program_.graph, .costs = costs_, .link = link};
  auto found = WeightSearch(problem).fastest(budget);
  require(found.has_value(), "a budget that is no smaller than the minimum has a plan");
  const auto error = validate(found->plan, program_.graph, costs_);
  if (error) throw InternalError("inference plan: " + *error);
  return std::move(*found);
}

}  // namespace neap
