// Batches that the application writes itself.
#include "neap/error.h"
#include "train/batch_source.h"
#include "train/step_shapes.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

class FedBatches final : public BatchSource {
 public:
  FedBatches(Feed feed, std::vector<StepShape> shapes, std::int64_t parts, const Graph& graph)
      : feed_(std::move(feed)), shapes_(std::move(shapes)), parts_(parts) {
    std::int64_t most = 0;  // bytes of a sample
    for (const Tensor& t : graph.tensors) {
      if (is_data(t)) most = std::max(most, t.type.bytes() / t.type.shape.size(0));
    }
    std::int64_t samples = 0;
    for (const StepShape& shape : shapes_) samples = std::max(samples, shape.batch / parts_);
    staging_.resize(static_cast<std::size_t>(most * samples));
  }

  void start(std::int64_t done) override { batches_ = done * parts_; }
  BatchInfo next() override {
    const StepShape& shape = shape_at(shapes_, batches_ / parts_ + 1);
    return {.samples = shape.batch / parts_, .length = shape.length};
  }
  bool can_write_again() const override { return false; }  // the application is asked once a step

  void write(Stepper& stepper) override {
    Executor& executor = stepper.executor();
    for (const DataInput& input : stepper.inputs()) {
      if (executor.is_host_memory()) {
        feed_(input.name, {executor.at(input.id), input.bytes});
      } else {
        feed_(input.name, std::span(staging_).first(input.bytes));
        executor.write(input.id, staging_.data());
      }
    }
    ++batches_;  // not when the application has thrown: it will be asked for the same again
  }

 private:
  Feed feed_;
  std::vector<StepShape> shapes_;
  std::int64_t parts_;
  std::int64_t batches_ = 0;        // so far: parts of steps
  std::vector<std::byte> staging_;  // for a device whose memory the host cannot write
};

}  // namespace

OpenData fed_by(Feed feed) {
  require(feed != nullptr, "there is a feed");
  return [feed = std::move(feed)](const TrainOptions& options, const ModelSpec& spec, const Graph& graph) {
    if (!options.eval.empty() || options.validation > 0) {
      throw UserError("evaluation needs data by name; an application that feeds its own batches evaluates by itself");
    }
    auto shapes = step_shapes(options, spec.model->batch(), sequence_length(graph));
    return DataSources{.training = std::make_unique<FedBatches>(feed, std::move(shapes), spec.parts, graph),
                       .evaluation = nullptr};
  };
}

Trainer::Trainer(std::shared_ptr<const Model> model, const TrainOptions& options, Feed feed)
    : impl_(std::make_unique<Impl>(std::move(model), options, fed_by(std::move(feed)))) {}

}  // namespace neap
