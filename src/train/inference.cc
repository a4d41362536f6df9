#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/clock.h"
#include "graph/initial.h"
#include "neap/error.h"
#include "neap/infer.h"
#include "optimize/once.h"
#include "train/batches.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/gearbox.h"
#include "train/prepared_weights.h"
#include "train/setup.h"
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
  if (options.policy == "spill" || !options.spill_dir.empty() || options.host_ram > 0) {
    throw UserError("inference keeps nothing for later that could leave the arena; give --budget alone");
  }
  if (!options.init.empty() && !options.checkpoint.empty()) {
    throw UserError("--init and --checkpoint contradict each other: weights come from one place");
  }
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
  const std::string from = give_initial(options, graph, weights);
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

void refuse_what_does_not_fit(const InferReport& report, std::int64_t bytes) {
  if (!report.budget_bytes || *report.budget_bytes >= bytes) return;
  throw DoesNotFit(fmt::format("the budget of {} is below the minimum of inference, {} ({} bytes): {} of it is state",
                               human_bytes(*report.budget_bytes), human_bytes(bytes), bytes,
                               human_bytes(report.state_bytes)));
}

}  // namespace

InferReport infer(std::shared_ptr<const Model> model, const TrainOptions& options, const InferOptions& inference) {
  check_inference(options);
  const Split split = split_of(inference.split, options.data);
  const ModelSpec spec = make_spec(std::move(model), options);
  const auto device = make_device(options);
  const auto policy = make_policy(options.policy, options.checkpointing);
  const InferenceForm form{.optimize = options.device == "cpu" ? options.optimize : "off",
                           .pruning = parse_pruning(options.prune),
                           .first_fit = options.buffers == "first-fit"};
  const Base base = make_base(spec, options, form, *device, *policy);
  InferReport out{.model = spec.model->name(),
                  .batch = spec.batch(),
                  .state_bytes = base.plan.state_bytes,
                  .min_budget_bytes = base.least.peak_bytes,
                  .numerics_id = base.program.numerics_id};
  out.budget_bytes = parse_budget(options.budget, {base.plan.state_bytes, base.plan.peak_bytes, base.least.peak_bytes});
  refuse_what_does_not_fit(out, out.min_budget_bytes);
  auto data = open_inference_data(options, spec, base.program.graph, split, inference.samples);
  Evaluator evaluator(spec, std::move(data), *device,
                      {.layout_for = [&](const Graph& g) { return shared_layout(base.program.graph, base.plan, g); },
                       .own_only = options.own_kernels,
                       .form = form,
                       .policy = policy.get(),
                       .budget = out.budget_bytes,
                       .most_samples = inference.samples});
  out.peak_bytes = evaluator.peak_bytes();
  refuse_what_does_not_fit(out, out.peak_bytes);
  const auto arena = device->make_arena(std::max(out.peak_bytes, base.least.peak_bytes), options.guard);
  Executor loader(base.program, base.least, *device, *arena);
  PreparedWeights weights(base.halves, loader);
  out.weights = load_weights(options, spec, base.whole, weights);
  weights.finish();
  Gearbox gearbox(options.recurrent, options.seed, false);
  const auto start = Clock::now();
  out.result = evaluator.run(*arena, [&](Executor& executor) { gearbox.enter(executor, 1); });
  const double ms = ms_since(start);
  out.median_batch_ms = evaluator.median_batch_ms();
  out.samples_per_second = ms > 0 ? static_cast<double>(out.result.samples) / ms * 1e3 : 0;
  return out;
}

}  // namespace neap
