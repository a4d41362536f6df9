#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/clock.h"
#include "graph/initial.h"
#include "neap/error.h"
#include "neap/infer.h"
#include "optimize/once.h"
#include "optimize/optimization.h"
#include "train/batches.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/gearbox.h"
#include "train/outside_weights.h"
#include "train/prepared_weights.h"
#include "train/setup.h"
#include "train/spilling.h"
#include "train/weights.h"

namespace neap {
namespace {

Split split_of(const std::string& text, const std::string& data) {
  if (text == "test" || (text.empty() && data == "fashion-mnist")) return Split::kTest;
  if (text.empty() || text == "train") return Split::kTrain;
  throw UserError(fmt::format("--split '{}': take train or test", text));
}

void check_inference(const TrainOptions& options) {
  if (options.device == "null") throw UserError("--device null computes nothing; inference takes cpu or cuda");
  if (options.policy == "spill") {
    throw UserError(
        "inference keeps no activations for later that could leave the arena; give --budget alone, and --host-ram or "
        "--spill-dir where weights may wait");
  }
  if (!options.init.empty() && !options.checkpoint.empty()) {
    throw UserError("--init and --checkpoint contradict each other: weights come from one place");
  }
  if (options.device == "cuda") refuse_for_cuda(options.optimize);
}

// On a GPU what is asked for: of itself it would compile fused programs, which one pass over the data may not pay back.
std::string passes_of(const TrainOptions& options) {
  return options.device == "cuda" && options.optimize == "adaptive" ? "off" : options.optimize;
}

// What the model itself has; with a file, only what is in no file. Returns where the weights come from.
std::string give_initial(const TrainOptions& options, const Graph& graph, PreparedWeights& weights) {
  std::string from = "initial";
  const bool has_file = !options.init.empty() || !options.checkpoint.empty();
  for (const Tensor& t : graph.tensors) {
    const bool is_in_file = t.role == Role::kParameter || t.role == Role::kBuffer;
    if (!is_state(t.role) || (has_file && is_in_file)) continue;
    if (t.data && t.role == Role::kParameter) from = "the model's";
    weights.give(t.name, initial_value(t, options.seed).data());
  }
  return from;
}

// `graph` is the whole one. Returns where they come from.
std::string load_weights(const TrainOptions& options, const ModelSpec& spec, const Graph& graph,
                         PreparedWeights& weights) {
  std::string from = give_initial(options, graph, weights);
  const auto take = [&](TensorId id, const std::byte* data) { weights.give(graph.at(id).name, data); };
  if (!options.init.empty()) {
    load_tensors(SafeTensorsFile(options.init), options.init, graph, take, Kept::kWeights);
    return options.init;
  }
  if (options.checkpoint.empty()) return from;
  std::string path = checkpoint_path(options.checkpoint).string();
  const Checkpoint checkpoint(options.checkpoint);
  const auto& run = checkpoint.info().run;
  if (const auto name = run.find("model"); name != run.end() && name->second != spec.model->name()) {
    throw UserError(fmt::format("'{}' is of the model '{}', not of '{}'", path, name->second, spec.model->name()));
  }
  load_tensors(checkpoint.tensors(), path, graph, take, Kept::kWeights);
  return path;
}

// Everything in the arena that is there whatever the batch: the state, at the offsets of one plan.
struct Base {
  Graph whole;    // with what runs once
  Halves halves;  // of it
  Program program;
  Plan plan;   // everything kept
  Plan least;  // of the least bytes
  StateLayout layout;
};

Base make_base(const ModelSpec& spec, const TrainOptions& options, const InferenceForm& form, Device& device,
               const Policy& policy) {
  Graph graph = build_inference(spec, spec.batch(), form);
  Halves halves = split_once(graph);
  Program program = prepare(halves.rest, device, options.own_kernels);
  Base out{.whole = std::move(graph),
           .halves = std::move(halves),
           .program = std::move(program),
           .plan = {},
           .least = {},
           .layout = {}};
  const Program& p = out.program;
  out.program.costs.ms.assign(p.graph.nodes.size(), 1);
  out.program.costs.first_fit = form.first_fit;
  const PlanningProblem problem{.graph = p.graph, .costs = p.costs, .link = {}};
  out.plan = plan_within(store_all_policy(), problem, std::nullopt);
  out.layout = layout_of(out.plan, p.graph);
  const PlanningProblem again{.graph = p.graph, .costs = p.costs, .link = {}, .layout = &out.layout};
  out.least = policy.smallest(again);
  if (out.least.peak_bytes > out.plan.peak_bytes) out.least = out.plan;
  return out;
}

// The budget is below the least that there is.
[[noreturn]] void refuse(std::int64_t budget, const Plan& least, const std::string& more) {
  throw DoesNotFit(fmt::format("the budget of {} is below the minimum of inference, {} ({} bytes): {} of it is state{}",
                               human_bytes(budget), human_bytes(least.peak_bytes), least.peak_bytes,
                               human_bytes(least.state_bytes), more));
}

// `least`: of the arena, if weights had a place to wait.
std::string advice_on_room(std::int64_t budget, std::int64_t least, std::int64_t now) {
  if (least >= now) return "";
  return fmt::format("; with --host-ram SIZE or --spill-dir DIR, where weights can wait, {} ({} bytes) {}",
                     human_bytes(least), least, budget < least ? "is the minimum" : "would do");
}

// Sets budget and minimum. What weights wait outside, and the plan for that; none: all of them fit.
std::optional<WeightPlan> settle_budget(const TrainOptions& options, const Base& base, const Device& device,
                                        InferReport& report) {
  const bool has_room = has_place(options);
  const OutsideWeights outside(base.program, options, device);
  const Plan least = has_room ? outside.smallest() : base.least;
  report.min_budget_bytes = std::min(base.least.peak_bytes, least.peak_bytes);
  report.budget_bytes =
      parse_budget(options.budget, {base.plan.state_bytes, base.plan.peak_bytes, report.min_budget_bytes});
  if (!report.budget_bytes || *report.budget_bytes >= base.least.peak_bytes) return std::nullopt;
  const std::int64_t budget = *report.budget_bytes;
  if (budget >= report.min_budget_bytes) return outside.plan_for(budget);
  if (has_room) refuse(budget, least, ", and all weights that can wait outside do");
  refuse(budget, base.least, advice_on_room(budget, outside.smallest().peak_bytes, base.least.peak_bytes));
}

std::unique_ptr<SpillStore> make_store_for(const TrainOptions& options, const Plan& plan, const Graph& graph,
                                           const Device& device, Arena& arena) {
  const std::span<std::byte> memory(arena.base(), static_cast<std::size_t>(arena.bytes()));
  return make_store(device, plan.slots,
                    spill_options(options, plan, graph, memory, parse_spill_faults(options.spill_fault)));
}

void note_transfers(const SpillCounters& moved, const Evaluator& evaluator, const Plan& plan, InferReport& out) {
  for (const std::int64_t bytes : plan.slots) out.outside_bytes += bytes;
  const std::int64_t passes = std::max<std::int64_t>(1, evaluator.passes_run());
  out.fetched_bytes = moved.read_bytes / passes;
  out.stalled_ms = moved.stalled_ms / static_cast<double>(passes);
  out.replays = evaluator.replays();
}

}  // namespace

InferReport infer(std::shared_ptr<const Model> model, const TrainOptions& options, const InferOptions& inference) {
  check_inference(options);
  const Split split = split_of(inference.split, options.data);
  const ModelSpec spec = make_spec(std::move(model), options);
  const auto device = make_device(options);
  const auto policy = make_policy(options.policy, options.checkpointing);
  const InferenceForm form{.optimize = passes_of(options),
                           .is_cuda = options.device == "cuda",
                           .pruning = parse_pruning(options.prune),
                           .first_fit = options.buffers == "first-fit"};
  const Base base = make_base(spec, options, form, *device, *policy);
  InferReport out{.model = spec.model->name(),
                  .batch = spec.batch(),
                  .state_bytes = base.plan.state_bytes,
                  .numerics_id = base.program.numerics_id};
  const std::optional<WeightPlan> weights = settle_budget(options, base, *device, out);
  const Plan& layout_plan = weights ? weights->plan : base.plan;
  auto data = open_inference_data(options, spec, base.program.graph, split, inference.samples);
  Evaluator evaluator(spec, std::move(data), *device,
                      {.layout_for = [&](const Graph& g) { return shared_layout(base.program.graph, layout_plan, g); },
                       .own_only = options.own_kernels,
                       .form = form,
                       .policy = policy.get(),
                       .budget = out.budget_bytes,
                       .most_samples = inference.samples,
                       .weights = weights ? &weights->outside : nullptr});
  out.peak_bytes = evaluator.peak_bytes();
  if (out.budget_bytes && *out.budget_bytes < out.peak_bytes) refuse(*out.budget_bytes, evaluator.largest(), "");
  const Plan& loading = weights ? weights->plan : base.least;
  const auto arena = device->make_arena(std::max(out.peak_bytes, loading.peak_bytes), options.guard);
  const auto store = weights ? make_store_for(options, loading, base.program.graph, *device, *arena) : nullptr;
  Executor loader(base.program, loading, *device, *arena, store.get());
  PreparedWeights prepared(base.halves, loader);
  out.weights = load_weights(options, spec, base.whole, prepared);
  prepared.finish();
  Gearbox gearbox(options.recurrent, options.seed, false);
  const SpillCounters before = store ? store->counters() : SpillCounters{};
  const auto start = Clock::now();
  out.result = evaluator.run(
      *arena, [&](Executor& executor) { gearbox.enter(executor, 1); }, store.get());
  const double ms = ms_since(start);
  out.median_batch_ms = evaluator.median_batch_ms();
  out.samples_per_second = ms > 0 ? static_cast<double>(out.result.samples) / ms * 1e3 : 0;
  if (store) note_transfers(between(before, store->counters()), evaluator, loading, out);
  return out;
}

}  // namespace neap
