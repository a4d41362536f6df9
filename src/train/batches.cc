#include "train/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "neap/error.h"
#include "train/data/wanted.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

Field field_of(const Tensor& t, const Model& model) {
  const std::vector<Dim>& dims = t.type.shape.dims();
  return {.name = t.name,
          .dtype = t.type.dtype,
          .sample_shape = Shape(std::vector<Dim>(dims.begin() + 1, dims.end())),
          .bound = model.bound(t.name)};
}

DatasetOptions options_for(const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
  DatasetOptions out;
  out.seed = options.seed;
  out.validation_fraction = options.validation;
  out.varying = options.lengths == "varying";
  for (const Tensor& t : graph.tensors) {
    if (is_data(t)) out.wanted.push_back(field_of(t, *spec.model));
  }
  if (out.wanted.empty()) throw UserError(fmt::format("model '{}' has no inputs", spec.model->name()));
  if (const auto image = roles_of(out.wanted).image) out.wanted[*image].image = true;
  return out;
}

// What --eval or --validation asks for; null: nothing.
std::shared_ptr<const Dataset> open_evaluation(const TrainOptions& options, DatasetOptions o) {
  if (options.eval.empty() && options.validation == 0) return nullptr;
  const bool is_split = options.eval.empty() || options.eval == "validation" || options.eval == "test";
  o.split = options.eval == "test"             ? Split::kTest
            : options.eval.empty() || is_split ? Split::kValidation
                                               : Split::kTrain;
  if (options.eval == "validation" && options.validation == 0) {
    throw UserError("--eval validation needs --validation SHARE, the part of the data to hold out");
  }
  if (!is_split) o.validation_fraction = 0;
  return open_dataset(is_split ? options.data : options.eval, o);
}

BatchOptions form_of(const TrainOptions& options, const Dataset& data, const Graph& graph,
                     std::span<const StepShape> shapes, std::int64_t parts) {
  BatchOptions out;
  for (const StepShape& shape : shapes) {
    out.limits.push_back({.batch = static_cast<std::uint64_t>((shape.step - 1) * parts),
                          .steps = shape.length,
                          .samples = static_cast<std::uint64_t>(shape.batch / parts)});
  }
  out.varying = options.lengths == "varying";
  if (!out.varying && options.length_schedule.empty()) return out;
  out.longest = sequence_length(graph);
  for (const Field& field : data.fields()) {
    if (is_sequence(field, out.longest)) continue;
    throw UserError(fmt::format("sequences cannot change their length with the input '{}' ({}{} a sample)", field.name,
                                name(field.dtype), field.sample_shape.text()));
  }
  return out;
}

// While a GPU computes, the cores are free for data; else they compute.
std::size_t loaders_of(const TrainOptions& options) {
  constexpr std::size_t kMost = 8;
  if (options.device != "cuda") return 1;
  const std::size_t cores = options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                                : std::max(2U, std::thread::hardware_concurrency()) / 2;
  return std::min(kMost, cores);
}

}  // namespace

// One in use, two being loaded.
constexpr std::size_t kRing = 3;

Batches::Batches(std::shared_ptr<const Dataset> data, const TrainOptions& options, const ModelSpec& spec,
                 const Graph& graph)
    : data_(std::move(data)),
      shapes_(step_shapes(options, spec.model->batch(), sequence_length(graph))),
      parts_(static_cast<std::uint64_t>(spec.parts)),
      sampling_{.size = data_->size(),
                .batch = static_cast<std::uint64_t>(spec.batch()),
                .seed = options.seed,
                .shuffle = options.shuffle,
                .parts = parts_,
                .streams = options.carry_state},
      form_(form_of(options, *data_, graph, shapes_, spec.parts)),
      augment_{.flip = options.flip, .crop_padding = options.crop, .seed = options.seed},
      loaders_(loaders_of(options)) {
  for (const StepShape& shape : shapes_) {
    if (static_cast<std::uint64_t>(shape.batch) <= sampling_.size) continue;
    const std::string from = shape.step > 1 ? fmt::format(", from step {} on,", shape.step) : "";
    throw UserError(fmt::format("--batch {}{} is more than the {} samples of '{}'", shape.batch, from, data_->size(),
                                options.data));
  }
  for (const Tensor& t : graph.tensors) {
    if (is_data(t)) fields_.push_back(data_->field(t.name));
  }
}

void Batches::start(std::int64_t done) {
  Sampler sampler(sampling_);
  for (std::int64_t step = 1; step <= done; ++step) {
    const auto samples = static_cast<std::uint64_t>(shape_at(shapes_, step).batch) / parts_;
    for (std::uint64_t part = 0; part < parts_; ++part) sampler.skip(samples);
  }
  const std::uint64_t batches = static_cast<std::uint64_t>(done) * parts_;
  loader_ = std::make_unique<Loader>(data_, std::move(sampler), augment_, kRing, form_, batches, loaders_);
}

BatchInfo Batches::next() {
  batch_ = &loader_->next();
  const std::uint64_t samples = batch_->indices.size();
  return {.samples = static_cast<std::int64_t>(samples),
          .length = batch_->length,
          .tokens = batch_->tokens,
          .begins = batch_->next.index <= samples * parts_};
}

void Batches::write(Stepper& stepper) {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    stepper.executor().write(stepper.inputs()[i].id, batch_->fields[fields_[i]].data());
  }
}

DataSources open_named_data(const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
  const DatasetOptions wanted = options_for(options, spec, graph);
  auto training = std::make_unique<Batches>(open_dataset(options.data, wanted), options, spec, graph);
  return {.training = std::move(training), .evaluation = open_evaluation(options, wanted)};
}

std::shared_ptr<const Dataset> open_inference_data(const TrainOptions& options, const ModelSpec& spec,
                                                   const Graph& graph, Split split, std::int64_t samples) {
  constexpr std::uint64_t kFew = 1024;
  DatasetOptions wanted = options_for(options, spec, graph);
  wanted.split = split;
  wanted.samples = samples > 0 ? static_cast<std::uint64_t>(samples) : kFew;
  return open_dataset(options.data, wanted);
}

Trainer::Trainer(std::shared_ptr<const Model> model, const TrainOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options, open_named_data)) {}

}  // namespace neap
