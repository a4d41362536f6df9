#include "train/model_spec.h"

#include <fmt/format.h>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "graph/op.h"
#include "mixed/gelu_layers.h"
#include "mixed/mixed.h"
#include "mixed/tf32.h"
#include "mixed/tiled_loss.h"
#include "neap/error.h"
#include "optimize/optimization.h"
#include "optimize/prune.h"
#include "split/split.h"
#include "split/sums.h"
#include "train/carried.h"
#include "train/state.h"
#include "train/step_shapes.h"

namespace neap {
namespace {

void check_inputs(const Graph& graph, const ModelSpec& spec, std::int64_t batch) {
  for (const Tensor& t : graph.tensors) {
    if (!is_data(t)) continue;
    const Shape& shape = t.type.shape;
    if (!shape.is_static()) {
      throw UserError(fmt::format("model '{}': input '{}' has the shape {}, of which only \"batch\" may stay open",
                                  spec.model->name(), t.name, shape.text()));
    }
    if (shape.rank() == 0 || shape.size(0) != batch) {
      throw UserError(fmt::format("model '{}': input '{}' has the shape {}, the first axis must be the batch of {}",
                                  spec.model->name(), t.name, shape.text(), batch));
    }
  }
}

Graph build_forward(const ModelSpec& spec, const BuildRequest& request) {
  Builder g(request.mode);
  spec.model->build(g, request);
  Graph out = bind(g.take(), {{"batch", request.batch}});
  check_inputs(out, spec, request.batch);
  const auto loss = out.output("loss");
  if (!loss || out.at(*loss).type != TensorType{DType::kF32, {}}) {
    throw UserError(fmt::format("model '{}' has no result \"loss\" that is one number; ask for one with --loss",
                                spec.model->name()));
  }
  return out;
}

BuildRequest of_a_part(const ModelSpec& spec) {
  BuildRequest out = spec.request;
  out.batch /= spec.split;
  return out;
}

// Its statistics would be those of a part.
void refuse_batch_norm(const Graph& forward) {
  for (const Node& node : forward.nodes) {
    if (node.op->name != "running_update") continue;
    throw UserError(fmt::format(
        "--accumulate: batch norm ('{}') would see parts of the batch instead of all of it; allow that with "
        "--accumulate-batch-norm, or freeze its statistics with --bn frozen",
        node.layer));
  }
}

void check_parts(const TrainOptions& options, const StepCount& batch) {
  const std::string from = batch.step > 1 ? fmt::format(", from step {} on,", batch.step) : "";
  if (options.accumulate < 1 || batch.count % options.accumulate != 0) {
    throw UserError(fmt::format("--accumulate {}: a batch of {}{} cannot be cut into so many equal parts",
                                options.accumulate, batch.count, from));
  }
  if (options.split < 1 || batch.count / options.accumulate % options.split != 0) {
    throw UserError(fmt::format("--split {}: a batch of {}{} cannot be cut into so many equal parts", options.split,
                                batch.count / options.accumulate, from));
  }
}

void check_compute(const TrainOptions& options) {
  if (options.compute != "f32" && options.compute != "tf32" && options.compute != "bf16") {
    throw UserError(fmt::format("--compute '{}': take f32, tf32 or bf16", options.compute));
  }
  if (options.compute == "tf32" && options.device == "cpu") {
    throw UserError("--compute tf32 is for --device cuda: a CPU has no TF32; take f32 or bf16");
  }
}

}  // namespace

ModelSpec make_spec(std::shared_ptr<const Model> model, const TrainOptions& options) {
  require(model != nullptr, "there is a model");
  check_compute(options);
  const std::vector<StepCount> batches = step_batches(options, model->batch());
  for (const StepCount& each : batches) check_parts(options, each);
  return {.model = std::move(model),
          .request = {.batch = batches.front().count / options.accumulate,
                      .length = options.length,
                      .image = options.image,
                      .frozen_batch_norm = options.frozen_batch_norm,
                      .loss = options.loss,
                      .padded = options.lengths == "varying"},
          .is_bf16 = options.compute == "bf16",
          .is_tf32 = options.compute == "tf32",
          .parts = options.accumulate,
          .split = options.split};
}

bool is_data(const Tensor& t) { return t.role == Role::kInput && !t.name.starts_with("step."); }

std::int64_t sequence_length(const Graph& graph) {
  for (const Tensor& t : graph.tensors) {
    const bool is_integer = t.type.dtype == DType::kI32 || t.type.dtype == DType::kI64;
    if (is_data(t) && is_integer && t.type.shape.rank() == 2) return t.type.shape.size(1);
  }
  return 0;
}

namespace {

Graph build_step(const ModelSpec& spec, const TrainOptions& options, const Variant& variant) {
  const auto passes = chosen_optimizations(options.optimize, options.device == "cuda");
  refuse_for_training(passes);
  const auto pruning = parse_pruning(options.prune);
  Graph forward = build_forward(spec, of_a_part(spec));
  apply(variant, forward);
  if (spec.parts > 1 && !options.accumulate_batch_norm) refuse_batch_norm(forward);
  if (options.carry_state) carry_states(forward);
  const bool is_joined = spec.is_bf16 && options.optimize != "off";
  const bool has_epilogues = is_joined && options.device == "cuda";
  if (is_joined) forward = with_tiled_loss(forward);
  forward = split_batch(forward, spec.split);
  if (has_epilogues) forward = with_gelu_layers(forward);
  freeze(forward, options.freeze);
  std::vector<TensorId> trained;
  for (const TensorId id : forward.with_role(Role::kParameter)) {
    if (forward.at(id).trainable) trained.push_back(id);
  }
  const TensorId loss = *forward.output("loss");
  const auto pruned = pruning ? pruned_weights(forward, *pruning) : std::map<TensorId, int>{};
  Builder g(std::move(forward));
  append_updates(g, differentiate(g, loss, trained), options.optimizer, spec.parts);
  if (!pruned.empty()) append_pruning(g, pruned, *pruning, spec.parts);
  Graph out = g.take();
  if (has_epilogues) out = with_gelu_gradients(out);
  if (spec.split > 1 && (options.device == "cuda" || !spec.is_bf16)) out = with_sums_in_place(out);
  verify(out);
  if (spec.is_bf16) return with_bf16(out);
  if (spec.is_tf32) out = with_tf32(std::move(out));
  return optimize(std::move(out), passes);
}

}  // namespace

Graph build_training(const ModelSpec& spec, const TrainOptions& options, const Variant& variant) {
  Graph out = build_step(spec, options, variant);
  if (options.carry_state) add_carried_rooms(out, carried_level(options), spec.parts);
  return out;
}

Graph build_inference(const ModelSpec& spec, std::int64_t batch, const InferenceForm& form) {
  Graph out = build_evaluation(spec, batch);
  if (form.pruning) out = with_pruned_weights(out, *form.pruning);
  return spec.is_bf16 ? out : optimize(std::move(out), chosen_optimizations(form.optimize, form.is_cuda));
}

Graph build_evaluation(const ModelSpec& spec, std::int64_t batch) {
  BuildRequest request = spec.request;
  request.mode = Mode::kEvaluation;
  request.batch = batch;
  Graph out = build_forward(spec, request);
  verify(out);
  return spec.is_bf16 ? with_bf16(out) : spec.is_tf32 ? with_tf32(std::move(out)) : out;
}

}  // namespace neap
