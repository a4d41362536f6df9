#include "train/batches.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {
namespace {

Field field_of(const Tensor& t) {
  const std::vector<Dim>& dims = t.type.shape.dims();
  return {.name = t.name,
          .dtype = t.type.dtype,
          .sample_shape = Shape(std::vector<Dim>(dims.begin() + 1, dims.end())),
          .image = t.name == "image"};
}

DatasetOptions options_for(const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
  DatasetOptions out;
  out.seed = options.seed;
  out.validation_fraction = options.validation;
  for (const Tensor& t : graph.tensors) {
    if (!is_data(t)) continue;
    const Field& field = out.wanted.emplace_back(field_of(t));
    if (field.image) {
      out.image = field.sample_shape.size(0);
      out.channels = field.sample_shape.size(2);
    } else if (field.sample_shape.rank() == 0) {
      out.classes = spec.model->bound(t.name);
    } else {
      out.length = field.sample_shape.size(0);
      out.vocab = spec.model->bound(t.name);
    }
  }
  return out;
}

void check_fits(const Dataset& data, const std::string& spec, const Graph& graph) {
  for (const Tensor& t : graph.tensors) {
    if (!is_data(t)) continue;
    const Field want = field_of(t);
    const Field& have = data.fields()[data.field(t.name)];
    if (have.dtype == want.dtype && have.sample_shape == want.sample_shape) continue;
    throw UserError(fmt::format("data '{}': field '{}' is {}{} a sample, the model takes {}{}", spec, t.name,
                                name(have.dtype), have.sample_shape.text(), name(want.dtype),
                                want.sample_shape.text()));
  }
}

std::shared_ptr<const Dataset> open(const std::string& spec, const DatasetOptions& options, const Graph& graph) {
  auto data = open_dataset(spec, options);
  check_fits(*data, spec, graph);
  return data;
}

}  // namespace

std::shared_ptr<const Dataset> open_training(const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
  return open(options.data, options_for(options, spec, graph), graph);
}

std::shared_ptr<const Dataset> open_evaluation(const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
  if (options.eval.empty() && options.validation == 0) return nullptr;
  DatasetOptions o = options_for(options, spec, graph);
  const bool is_split = options.eval.empty() || options.eval == "validation" || options.eval == "test";
  o.split = options.eval == "test"             ? Split::kTest
            : options.eval.empty() || is_split ? Split::kValidation
                                               : Split::kTrain;
  if (options.eval == "validation" && options.validation == 0) {
    throw UserError("--eval validation needs --validation SHARE, the part of the data to hold out");
  }
  if (!is_split) o.validation_fraction = 0;
  return open(is_split ? options.data : options.eval, o, graph);
}

Batches::Batches(const TrainOptions& options, const ModelSpec& spec, const Graph& graph)
    : data_(open_training(options, spec, graph)),
      sampling_{.size = data_->size(),
                .batch = static_cast<std::uint64_t>(spec.batch()),
                .seed = options.seed,
                .shuffle = options.shuffle},
      augment_{.flip = options.flip, .crop_padding = options.crop, .seed = options.seed} {
  if (sampling_.batch > sampling_.size) {
    throw UserError(
        fmt::format("--batch {} is more than the {} samples of '{}'", spec.batch(), data_->size(), options.data));
  }
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (is_data(graph.tensors[i])) inputs_.emplace_back(TensorId{i}, data_->field(graph.tensors[i].name));
  }
}

void Batches::start(std::int64_t done) {
  Sampler sampler(sampling_);
  const std::uint64_t per_epoch = sampler.batches_per_epoch();
  const auto batches = static_cast<std::uint64_t>(done);
  sampler.seek({.epoch = batches / per_epoch, .index = batches % per_epoch * sampling_.batch});
  loader_ = std::make_unique<Loader>(data_, std::move(sampler), augment_);
}

void Batches::next(const std::function<void(TensorId, const std::byte*)>& write) {
  const Loader::Batch& batch = loader_->next();
  for (const auto& [id, field] : inputs_) write(id, batch.fields[field].data());
  loader_->release();
}

}  // namespace neap
