#include "train/setup.h"

#include <fmt/format.h>

#include <chrono>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"
#include "plan/simulate.h"
#include "train/budget.h"
#include "train/schedule.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::unique_ptr<Device> make_device(const TrainOptions& options) {
  if (options.device == "cpu") return make_cpu_device(options.threads);
  if (options.device == "null") return make_null_device();
  if (options.device == "cuda" && make_cuda_device == nullptr) {
    throw UserError("this build of neap has no CUDA; use --device cpu");
  }
  if (options.device == "cuda") return make_cuda_device();
  throw UserError(fmt::format("there is no device '{}'; take cpu, cuda or null", options.device));
}

// Bytes that each layer keeps for backward, in program order.
struct LayerBytes {
  std::vector<std::string> order;
  std::map<std::string, std::int64_t> kept;
  std::map<std::string, int> made_again;
  std::map<std::string, std::int64_t> spilled;
};

LayerBytes bytes_by_layer(const Plan& plan, const Graph& graph) {
  LayerBytes out;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward && out.kept.try_emplace(node.layer, 0).second) out.order.push_back(node.layer);
  }
  for (const Block& b : plan.blocks) {
    if (b.kind != BlockKind::kSaved || !b.tensor || !graph.at(b.tensor).producer) continue;
    out.kept[graph.at(graph.at(b.tensor).producer).layer] += b.bytes;
  }
  for (const Instruction& in : plan.instructions) {
    if (in.action == Action::kRecompute) ++out.made_again[graph.at(in.node).layer];
    if (in.action == Action::kSpillBegin) out.spilled[graph.at(in.node).layer] += plan.slots[in.slot.index];
  }
  return out;
}

// Until the first step was timed: what a middling machine takes.
constexpr Link kGuessedLink = {.write_bytes_per_ms = 1.5e6, .read_bytes_per_ms = 2e6};

std::vector<double> estimated_ms(const Graph& graph) {
  constexpr double kFlopsPerMs = 1e8;
  constexpr double kBytesPerMs = 1e7;
  std::vector<double> out;
  for (const Node& node : graph.nodes) {
    const OpCall call = call_of(graph, node);
    out.push_back(std::max(flops_of(call) / kFlopsPerMs, traffic_of(call) / kBytesPerMs));
  }
  return out;
}

}  // namespace

Setup make_setup(std::shared_ptr<const Model> model, const TrainOptions& options) {
  check(options.schedule);
  Setup out;
  out.spec = make_spec(std::move(model), options);
  out.device = make_device(options);
  out.program = prepare(build_training(out.spec, options), *out.device, options.own_kernels);
  out.program.costs.ms = estimated_ms(out.program.graph);
  out.link = kGuessedLink;
  out.policy = &policy_named(options.policy);
  const PlanningProblem problem{.graph = out.program.graph, .costs = out.program.costs, .link = out.link};
  const auto start = Clock::now();
  out.plan = plan_within(store_all_policy(), problem, std::nullopt);
  out.store_all_bytes = out.plan.peak_bytes;
  const bool keeps_all = out.policy == &store_all_policy();
  out.min_bytes = keeps_all ? out.store_all_bytes : out.policy->smallest(problem).peak_bytes;
  out.budget = parse_budget(options.budget, {out.plan.state_bytes, out.store_all_bytes, out.min_bytes});
  if (!options.reservation.empty()) {
    const auto room = static_cast<std::int64_t>(aligned_part(options.reservation).size());
    out.budget = std::min(room, out.budget.value_or(room));
  }
  if (out.budget && out.plan.peak_bytes > *out.budget) out.plan = plan_within(*out.policy, problem, out.budget);
  out.planning_ms = ms_since(start);
  return out;
}

void plan_again(Setup& s) {
  const auto start = Clock::now();
  s.plan = plan_within(*s.policy, {.graph = s.program.graph, .costs = s.program.costs, .link = s.link}, s.budget);
  s.planning_ms += ms_since(start);
}

PlanReport report_of(const Setup& s) {
  const Simulation simulation = simulate(s.plan, s.program.costs, s.link);
  PlanReport out{.feasible = !s.budget || s.plan.peak_bytes <= *s.budget,
                 .budget_bytes = s.budget,
                 .min_budget_bytes = s.min_bytes,
                 .peak_bytes = simulation.peak_bytes,
                 .arena_bytes = s.plan.peak_bytes,
                 .lower_bound_bytes = s.plan.lower_bound_bytes,
                 .store_all_bytes = s.store_all_bytes,
                 .state_bytes = s.plan.state_bytes,
                 .predicted_step_ms = simulation.ms};
  const LayerBytes layers = bytes_by_layer(s.plan, s.program.graph);
  for (const std::string& layer : layers.order) {
    const auto again = layers.made_again.find(layer);
    const bool is_derived = again != layers.made_again.end();
    const auto spilled = layers.spilled.find(layer);
    const bool leaves = spilled != layers.spilled.end();
    out.layers.push_back(
        {.name = layer,
         .action = leaves ? "spill" : "store",
         .kept_bytes = layers.kept.at(layer),
         .precision = "f32",
         .reason = leaves ? fmt::format("{} leave the arena until backward needs them", human_bytes(spilled->second))
                   : is_derived ? "one cheap pass makes the rest again from what is kept"
                                : "it fits"});
  }
  return out;
}

PlanReport plan_training(std::shared_ptr<const Model> model, const TrainOptions& options) {
  return report_of(make_setup(std::move(model), options));
}

}  // namespace neap
