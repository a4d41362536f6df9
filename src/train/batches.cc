#include "train/batches.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "train/data/wanted.h"
#include "train/step_list.h"
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

SequenceOptions sequences_of(const TrainOptions& options, const Dataset& data, const Graph& graph, std::int64_t parts) {
  SequenceOptions out;
  out.varying = options.lengths == "varying";
  if (!out.varying && options.length_schedule.empty()) return out;
  out.longest = sequence_length(graph);
  for (const StepLength& part : parse_length_schedule(options.length_schedule, out.longest)) {
    out.limits.push_back({static_cast<std::uint64_t>((part.step - 1) * parts), part.length});
  }
  for (const Field& field : data.fields()) {
    if (is_sequence(field, out.longest)) continue;
    throw UserError(fmt::format("sequences cannot change their length with the input '{}' ({}{} a sample)", field.name,
                                name(field.dtype), field.sample_shape.text()));
  }
  return out;
}

}  // namespace

// One in use, two being loaded.
constexpr std::size_t kRing = 3;

Batches::Batches(std::shared_ptr<const Dataset> data, const TrainOptions& options, const ModelSpec& spec,
                 const Graph& graph)
    : data_(std::move(data)),
      parts_(static_cast<std::uint64_t>(spec.parts)),
      sampling_{.size = data_->size(),
                .batch = static_cast<std::uint64_t>(spec.batch()),
                .seed = options.seed,
                .shuffle = options.shuffle,
                .parts = parts_,
                .streams = options.carry_state},
      sequences_(sequences_of(options, *data_, graph, spec.parts)),
      augment_{.flip = options.flip, .crop_padding = options.crop, .seed = options.seed} {
  if (sampling_.batch * parts_ > sampling_.size) {
    throw UserError(fmt::format("--batch {} is more than the {} samples of '{}'", sampling_.batch * parts_,
                                data_->size(), options.data));
  }
  for (const Tensor& t : graph.tensors) {
    if (is_data(t)) fields_.push_back(data_->field(t.name));
  }
}

void Batches::start(std::int64_t done) {
  Sampler sampler(sampling_);
  const std::uint64_t per_epoch = sampler.batches_per_epoch();
  const std::uint64_t batches = static_cast<std::uint64_t>(done) * parts_;
  sampler.seek({.epoch = batches / per_epoch, .index = batches % per_epoch * sampling_.batch});
  loader_ = std::make_unique<Loader>(data_, std::move(sampler), augment_, kRing, sequences_, batches);
}

BatchInfo Batches::next() {
  batch_ = &loader_->next();
  return {.length = batch_->length, .tokens = batch_->tokens, .begins = batch_->next.index <= sampling_.batch * parts_};
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
