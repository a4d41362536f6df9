// Batches that the application writes itself.
#include "neap/error.h"
#include "train/batch_source.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

class FedBatches final : public BatchSource {
 public:
  FedBatches(Feed feed, const Graph& graph) : feed_(std::move(feed)) {
    std::size_t most = 0;
    for (const Tensor& t : graph.tensors) {
      if (is_data(t)) most = std::max(most, static_cast<std::size_t>(t.type.bytes()));
    }
    staging_.resize(most);
  }

  void start(std::int64_t /*done*/) override {}
  BatchInfo next() override { return {}; }
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
  }

 private:
  Feed feed_;
  std::vector<std::byte> staging_;  // for a device whose memory the host cannot write
};

}  // namespace

OpenData fed_by(Feed feed) {
  require(feed != nullptr, "there is a feed");
  return [feed = std::move(feed)](const TrainOptions& options, const ModelSpec& /*spec*/, const Graph& graph) {
    if (!options.eval.empty() || options.validation > 0) {
      throw UserError("evaluation needs data by name; an application that feeds its own batches evaluates by itself");
    }
    return DataSources{.training = std::make_unique<FedBatches>(feed, graph), .evaluation = nullptr};
  };
}

Trainer::Trainer(std::shared_ptr<const Model> model, const TrainOptions& options, Feed feed)
    : impl_(std::make_unique<Impl>(std::move(model), options, fed_by(std::move(feed)))) {}

}  // namespace neap
