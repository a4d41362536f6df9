#include "train/setup.h"

#include <fmt/format.h>

#include <set>

#include "core/bytes.h"
#include "core/clock.h"
#include "graph/op.h"
#include "neap/error.h"
#include "observe/ceilings.h"
#include "optimize/optimization.h"
#include "train/budget.h"
#include "train/data/sequences.h"
#include "train/parts.h"
#include "train/schedule.h"
#include "train/settle.h"
#include "train/step_list.h"

namespace neap {

std::unique_ptr<Device> make_device(const TrainOptions& options) {
  if (options.device == "cpu") return make_cpu_device(options.threads);
  if (options.device == "null") return make_null_device();
  if (options.device == "cuda" && make_cuda_device == nullptr) {
    throw UserError("this build of neap has no CUDA; use --device cpu");
  }
  if (options.device == "cuda") return make_cuda_device();
  throw UserError(fmt::format("there is no device '{}'; take cpu, cuda or null", options.device));
}

namespace {

// Until the first step was timed: what a middling machine takes.
constexpr Link kGuessedLink = {.write_bytes_per_ms = 1.5e6, .read_bytes_per_ms = 2e6};
constexpr double kGuessedHostMsPerByte = 3e-7;  // where the cores that compute also copy and add up checksums
constexpr Link kGuessedPinnedLink = {.write_bytes_per_ms = 5e7, .read_bytes_per_ms = 5e7};  // a GPU's, to RAM

// Nanoseconds an element: memory speed on a few cores.
constexpr CodecCosts kGuessedCodec = {.encode = {0, 0.25, 0.25, 0.3, 0.3, 0.3}, .decode = {0, 0.2, 0.2, 0.2, 0.2, 0.2}};

// On a GPU: bytes at memory speed.
constexpr CodecCosts kGuessedGpuCodec = {.encode = {0, 0.002, 0.002, 0.002, 0.002, 0.002},
                                         .decode = {0, 0.002, 0.002, 0.002, 0.002, 0.002}};

}  // namespace

void guess_times(const Graph& graph, DeviceKind device, Costs& costs) {
  const bool is_gpu = device == DeviceKind::kCuda;
  const double flops_per_ms = is_gpu ? 3e11 : 1e8;
  costs.bytes_per_ms = is_gpu ? 3e9 : 1e7;
  costs.codec = is_gpu ? kGuessedGpuCodec : kGuessedCodec;
  costs.ms.clear();
  for (const Node& node : graph.nodes) {
    const OpCall call = call_of(graph, node);
    costs.ms.push_back(std::max(flops_of(call) / flops_per_ms, traffic_of(call) / costs.bytes_per_ms));
  }
}

Link guessed_link(const TrainOptions& options, DeviceKind device) {
  const bool is_gpu = device == DeviceKind::kCuda;
  Link out = is_gpu && options.host_ram > 0 ? kGuessedPinnedLink : kGuessedLink;
  if (!is_gpu) out.host_ms_per_byte = kGuessedHostMsPerByte;
  out.is_ahead = options.prefetch;
  return out;
}

namespace {

// What a run begins with.
std::string first_budget(const TrainOptions& options) {
  for (const StepValue& part : parse_step_list(options.budget_schedule, "--budget-schedule")) {
    if (part.step == 1) return part.value;
  }
  return options.budget;
}

// The lengths that batches can have besides the longest: the minimum is proven for each.
std::set<std::int64_t> other_lengths(const TrainOptions& options, std::int64_t longest) {
  std::set<std::int64_t> out;
  for (const StepLength& part : parse_length_schedule(options.length_schedule, longest)) out.insert(part.length);
  if (options.lengths == "varying") {
    for (std::int64_t length = kLengthStep; length < longest; length += kLengthStep) out.insert(length);
  }
  out.erase(longest);
  return out;
}

void check_lengths(const Setup& setup, const TrainOptions& options) {
  const Model& model = *setup.spec.model;
  if (options.lengths != "fixed" && options.lengths != "varying") {
    throw UserError(fmt::format("--lengths '{}': take fixed or varying", options.lengths));
  }
  const bool is_varying = options.lengths == "varying";
  if (!is_varying && options.length_schedule.empty()) return;
  if (setup.shape.length == 0) {
    throw UserError(fmt::format("model '{}' takes no sequences, whose lengths could change", model.name()));
  }
  if (is_varying && !model.takes_padding()) {
    throw UserError(fmt::format("--lengths varying: model '{}' would take padding for data", model.name()));
  }
  parse_length_schedule(options.length_schedule, setup.shape.length);
}

}  // namespace

std::shared_ptr<Program> prepare_length(const Setup& setup, const TrainOptions& options, std::int64_t length,
                                        int variant) {
  ModelSpec spec = setup.spec;
  if (length > 0) spec.request.length = length;
  const Variant form = setup.variants.empty() ? Variant{} : setup.variants.at(static_cast<std::size_t>(variant));
  auto out =
      std::make_shared<Program>(prepare(build_training(spec, options, form), *setup.device, options.own_kernels));
  guess_times(out->graph, setup.device->kind(), out->costs);
  out->costs.first_fit = options.buffers == "first-fit";
  return out;
}

PlanningProblem Setup::problem(const Program& of, const StateLayout* layout, StoredLevels& stored) const {
  if (levels) stored = levels->in(of.graph);
  return {of.graph, of.costs, link, layout, levels ? &stored : nullptr};
}

std::int64_t saved_bytes(const Plan& plan, const Graph& graph) {
  Tick turn = 0;
  while (turn < plan.instructions.size() && graph.at(plan.instructions[turn].node).phase == Phase::kForward) ++turn;
  std::int64_t out = 0;
  for (const Block& b : plan.blocks) {
    if (b.kind == BlockKind::kSaved && b.lower < turn && turn < b.upper) out += b.bytes;
  }
  return out;
}

namespace {

// The least that a run may come to need: where levels follow the data, any of them may have to be exact.
Plan smallest_plan(const Setup& setup, const Program& program, const StateLayout* layout) {
  StoredLevels stored;
  const PlanningProblem problem = setup.problem(program, layout, stored);
  return setup.policy->smallest(setup.levels && setup.levels->is_adaptive() ? without_choice(problem) : problem);
}

struct Least {
  std::shared_ptr<Program> program;
  Plan plan;
};

// The plan of the fewest bytes for the longest shape, among all variants.
Least find_least(Setup& setup, const TrainOptions& options) {
  Least out{.program = setup.program, .plan = smallest_plan(setup, *setup.program, nullptr)};
  setup.variant_bytes = {out.plan.peak_bytes};
  for (int v = 1; v < static_cast<int>(setup.variants.size()); ++v) {
    auto program = prepare_length(setup, options, 0, v);
    const StateLayout layout = shared_layout(setup.program->graph, setup.plan, program->graph);
    Plan plan = smallest_plan(setup, *program, &layout);
    setup.variant_bytes.push_back(plan.peak_bytes);
    if (plan.peak_bytes >= out.plan.peak_bytes) continue;
    setup.least_variant = v;
    out = {std::move(program), std::move(plan)};
  }
  return out;
}

// Store-all's plan, and what the run needs at least.
Least find_bytes(Setup& setup, const TrainOptions& options) {
  setup.plan = plan_within(store_all_policy(), {setup.program->graph, setup.program->costs, setup.link}, std::nullopt);
  setup.store_all_bytes = setup.plan.peak_bytes;
  setup.exact_saved_bytes = saved_bytes(setup.plan, setup.program->graph);
  const bool keeps_all = setup.policy.get() == &store_all_policy();
  Least least = keeps_all ? Least{setup.program, setup.plan} : find_least(setup, options);
  setup.min_bytes = least.plan.peak_bytes;
  for (const std::int64_t length : other_lengths(options, setup.shape.length)) {
    const auto program = prepare_length(setup, options, length, setup.least_variant);
    const StateLayout layout = shared_layout(setup.program->graph, setup.plan, program->graph);
    setup.min_bytes = std::max(setup.min_bytes, smallest_plan(setup, *program, &layout).peak_bytes);
  }
  return least;
}

void find_budget(Setup& setup, const TrainOptions& options) {
  setup.budget = parse_budget(first_budget(options), {setup.plan.state_bytes, setup.store_all_bytes, setup.min_bytes});
  if (options.reservation.empty()) return;
  const auto room = static_cast<std::int64_t>(aligned_part(options.reservation).size());
  setup.budget = std::min(room, setup.budget.value_or(room));
}

// The plan that the run begins with.
void plan_first(Setup& setup, const TrainOptions& options, Least least) {
  // What takes memory of its own to be measured is measured before the arena has its pages.
  const bool is_tight = setup.budget && setup.plan.peak_bytes > *setup.budget;
  if (is_tight && setup.device->kind() == DeviceKind::kCpu) measure_ceilings();
  if (setup.budget && *setup.budget < setup.min_bytes) {
    setup.plan = std::move(least.plan);  // it is refused, and this says what the minimum consists of
    setup.program = std::move(least.program);
  } else if (setup.levels) {
    StoredLevels stored;
    setup.plan = settling_plan(*setup.policy, setup.problem(*setup.program, nullptr, stored), setup.budget);
  } else if (is_tight) {
    setup.shape.variant = choose_variant(setup, setup.budget);
    if (setup.shape.variant > 0) setup.program = prepare_length(setup, options, 0, setup.shape.variant);
    setup.plan = first_plan(*setup.policy, {setup.program->graph, setup.program->costs, setup.link}, *setup.budget);
  }
}

}  // namespace

int choose_variant(const Setup& setup, std::optional<std::int64_t> budget) {
  if (setup.variants.size() < 2 || !budget || setup.store_all_bytes <= *budget) return 0;  // nothing is faster
  for (int v = 0; v < static_cast<int>(setup.variant_bytes.size()); ++v) {
    if (setup.variant_bytes[static_cast<std::size_t>(v)] <= *budget) return v;
  }
  return setup.least_variant;
}

Setup make_setup(std::shared_ptr<const Model> model, const TrainOptions& options) {
  check(options.schedule);
  if (options.buffers != "best" && options.buffers != "first-fit") {
    throw UserError(fmt::format("--buffers '{}': take best or first-fit", options.buffers));
  }
  if (options.device == "cuda") refuse_for_cuda(options.optimize);
  Setup out;
  out.spec = make_spec(std::move(model), options);
  out.device = make_device(options);
  out.program = prepare_length(out, options, 0, 0);
  out.variants = variants_of(options, out.program->graph);
  if (out.variants[0] != Variant{}) out.program = prepare_length(out, options, 0, 0);
  out.shape = {.batch = out.spec.batch(), .length = sequence_length(out.program->graph)};
  check_lengths(out, options);
  out.link = guessed_link(options, out.device->kind());
  out.policy = make_policy(options.policy, options.checkpointing, has_place(options));
  out.levels = Levels::make(options, out.program->graph);
  const auto start = Clock::now();
  Least least = find_bytes(out, options);
  find_budget(out, options);
  plan_first(out, options, std::move(least));
  out.planning_ms = ms_since(start);
  return out;
}

PlanReport plan_training(std::shared_ptr<const Model> model, const TrainOptions& given) {
  const TrainOptions options = with_settled_parts(model, given);
  const Setup setup = make_setup(std::move(model), options);
  const bool is_settled =
      setup.levels || !setup.budget || setup.store_all_bytes <= *setup.budget || *setup.budget < setup.min_bytes;
  if (is_settled) return report_of(setup, *setup.program, setup.plan);
  // What it comes to, not what it begins with.
  const PlanningProblem problem{.graph = setup.program->graph, .costs = setup.program->costs, .link = setup.link};
  return report_of(setup, *setup.program, plan_within(*setup.policy, problem, setup.budget));
}

}  // namespace neap
