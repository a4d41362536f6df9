#include "train/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/clock.h"
#include "graph/op.h"
#include "neap/error.h"
#include "observe/ceilings.h"
#include "optimize/optimization.h"
#include "train/budget.h"
#include "train/parts.h"
#include "train/schedule.h"
#include "train/settle.h"
#include "train/step_list.h"

namespace neap {

std::unique_ptr<Device> make_device(const TrainOptions& options, DeviceMaker cuda) {
  if (options.device == "cpu") return make_cpu_device(options.threads);
  if (options.device == "null") return make_null_device();
  if (options.device == "cuda" && cuda == nullptr) {
    throw UserError("this build of neap has no CUDA; use --device cpu");
  }
  if (options.device == "cuda") return cuda();
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
  const double flops_per_ms = is_gpu ? 3e11 : 2.5e8;
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

BatchShape part_of(const StepShape& shape, const ModelSpec& spec) {
  return {.batch = shape.batch / spec.parts, .length = shape.length};
}

void check_lengths(const Setup& setup, const TrainOptions& options) {
  const Model& model = *setup.spec.model;
  if (options.lengths != "fixed" && options.lengths != "varying") {
    throw UserError(fmt::format("--lengths '{}': take fixed or varying", options.lengths));
  }
  const bool is_varying = options.lengths == "varying";
  if (!is_varying && options.length_schedule.empty()) return;
  if (setup.longest == 0) {
    throw UserError(fmt::format("model '{}' takes no sequences, whose lengths could change", model.name()));
  }
  if (is_varying && !model.takes_padding()) {
    throw UserError(fmt::format("--lengths varying: model '{}' would take padding for data", model.name()));
  }
}

void check_batches(const TrainOptions& options) {
  if (options.batch_schedule.empty() || !options.carry_state) return;
  throw UserError(
      "--carry-state: each sample of a batch goes on where one of the batch before has ended, so batches cannot change "
      "their size; leave --batch-schedule out");
}

}  // namespace

std::shared_ptr<Program> prepare_shape(const Setup& setup, const TrainOptions& options, const BatchShape& shape) {
  ModelSpec spec = setup.spec;
  spec.request.batch = shape.batch;
  if (shape.length != setup.longest)
    spec.request.length = shape.length;  // what is the model's own need not be asked for
  const Variant form = setup.variants.empty() ? Variant{} : setup.variants.at(static_cast<std::size_t>(shape.variant));
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

// The plan of the fewest bytes for the largest shape, among all variants.
Least find_least(Setup& setup, const TrainOptions& options) {
  Least out{.program = setup.program, .plan = smallest_plan(setup, *setup.program, nullptr)};
  setup.variant_bytes = {out.plan.peak_bytes};
  for (int v = 1; v < static_cast<int>(setup.variants.size()); ++v) {
    auto program = prepare_shape(setup, options, {setup.shape.batch, setup.shape.length, v});
    const StateLayout layout = shared_layout(setup.program->graph, setup.plan, program->graph);
    Plan plan = smallest_plan(setup, *program, &layout);
    setup.variant_bytes.push_back(plan.peak_bytes);
    if (plan.peak_bytes >= out.plan.peak_bytes) continue;
    setup.least_variant = v;
    out = {std::move(program), std::move(plan)};
  }
  return out;
}

Plan store_all_plan(const Setup& setup, const Program& program) {
  return plan_within(store_all_policy(), {program.graph, program.costs, setup.link}, std::nullopt);
}

// The largest shape, which storing everything needs the most for; its program and store-all's plan.
void find_largest(Setup& setup, const TrainOptions& options) {
  for (const StepShape& each : largest_shapes(setup.shapes)) {
    const BatchShape shape = part_of(each, setup.spec);
    auto program =
        shape == setup.shape && setup.variants[0] == Variant{} ? setup.program : prepare_shape(setup, options, shape);
    Plan plan = store_all_plan(setup, *program);
    if (plan.peak_bytes <= setup.store_all_bytes) continue;
    setup.store_all_bytes = plan.peak_bytes;
    setup.min_shape = each;
    setup.shape = shape;
    setup.program = std::move(program);
    setup.plan = std::move(plan);
  }
}

// What the run needs at least: all shapes of it.
Least find_bytes(Setup& setup, const TrainOptions& options) {
  setup.exact_saved_bytes = saved_bytes(setup.plan, setup.program->graph);
  const bool keeps_all = setup.policy.get() == &store_all_policy();
  Least least = keeps_all ? Least{setup.program, setup.plan} : find_least(setup, options);
  setup.min_bytes = least.plan.peak_bytes;
  for (const StepShape& each : all_shapes(setup.shapes, options)) {
    BatchShape shape = part_of(each, setup.spec);
    if (shape.batch == setup.shape.batch && shape.length == setup.shape.length) continue;
    shape.variant = setup.least_variant;
    auto program = prepare_shape(setup, options, shape);
    const StateLayout layout = shared_layout(setup.program->graph, setup.plan, program->graph);
    Plan plan = smallest_plan(setup, *program, &layout);
    if (plan.peak_bytes <= setup.min_bytes) continue;
    setup.min_bytes = plan.peak_bytes;
    setup.min_shape = each;
    least = {std::move(program), std::move(plan)};
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
  const bool may_be_tight = is_tight || !options.budget_schedule.empty();
  if (may_be_tight && setup.device->kind() == DeviceKind::kCpu) measure_ceilings();
  if (setup.budget && *setup.budget < setup.min_bytes) {
    setup.plan = std::move(least.plan);  // it is refused, and this says what the minimum consists of
    setup.program = std::move(least.program);
  } else if (setup.levels) {
    StoredLevels stored;
    setup.plan = settling_plan(*setup.policy, setup.problem(*setup.program, nullptr, stored), setup.budget);
  } else if (is_tight) {
    setup.shape.variant = choose_variant(setup, setup.budget);
    if (setup.shape.variant > 0) setup.program = prepare_shape(setup, options, setup.shape);
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
  check_batches(options);
  out.program = prepare_shape(out, options, {.batch = out.spec.batch()});
  out.variants = variants_of(options, out.program->graph);
  out.longest = sequence_length(out.program->graph);
  out.shape = {.batch = out.spec.batch(), .length = out.longest};
  check_lengths(out, options);
  out.shapes = step_shapes(options, out.spec.model->batch(), out.longest);
  out.link = guessed_link(options, out.device->kind());
  out.policy = make_policy(options.policy, options.checkpointing, has_place(options));
  const auto start = Clock::now();
  find_largest(out, options);
  out.levels = Levels::make(options, out.program->graph);
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
