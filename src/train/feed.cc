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
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      if (!is_data(t)) continue;
      inputs_.push_back({.id = {i}, .name = t.name, .bytes = static_cast<std::size_t>(t.type.bytes())});
      most = std::max(most, inputs_.back().bytes);
    }
    staging_.resize(most);
  }

  void start(std::int64_t /*done*/) override {}
  void again(Executor& executor) override { next(executor); }

  void next(Executor& executor) override {
    for (const Input& input : inputs_) {
      if (executor.is_host_memory()) {
        feed_(input.name, {executor.at(input.id), input.bytes});
      } else {
        feed_(input.name, std::span(staging_).first(input.bytes));
        executor.write(input.id, staging_.data());
      }
    }
  }

 private:
  struct Input {
    TensorId id;
    std::string name;
    std::size_t bytes = 0;
  };
  Feed feed_;
  std::vector<Input> inputs_;
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
