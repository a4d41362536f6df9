// Models by name or file. Apart from the trainer, so that an application with a model of its own links none of them.
#include <fmt/format.h>

#include "neap/builtin_models.h"
#include "neap/error.h"
#include "neap/train.h"
#include "pool/spill_store.h"
#ifdef NEAP_WITH_ONNX
#include "neap/onnx.h"
#endif

namespace neap {
namespace {

// Whoever opens models by name has all parts of Neap.
const bool kHasStore = [] {
  spill_store_maker() = make_spill_store;
  return true;
}();

std::shared_ptr<const Model> open_onnx(const std::string& path) {
#ifdef NEAP_WITH_ONNX
  return load_onnx(path);
#else
  throw UserError(fmt::format("'{}': cannot read ONNX in this build", path));
#endif
}

#ifdef NEAP_WITH_ONNX
// A built-in model that can be saved as ONNX. Apart from BuiltinModel, since an application that links the library
// alone has no ONNX.
class SavedAsOnnx final : public Model {
 public:
  explicit SavedAsOnnx(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  std::string name() const override { return model_->name(); }
  std::int64_t batch() const override { return model_->batch(); }
  void build(Builder& g, const BuildRequest& request) const override { model_->build(g, request); }
  std::int64_t bound(std::string_view input) const override { return model_->bound(input); }
  bool takes_padding() const override { return model_->takes_padding(); }
  std::vector<std::string> notes() const override { return model_->notes(); }
  void save(const std::string& path, const BuildRequest& request, const WeightReader& weight) const override {
    save_onnx(*model_, request, path, weight);
  }

 private:
  std::shared_ptr<const Model> model_;
};

std::shared_ptr<const Model> open_builtin(const std::string& text) {
  return std::make_shared<const SavedAsOnnx>(open_builtin_model(text));
}
#else
std::shared_ptr<const Model> open_builtin(const std::string& text) { return open_builtin_model(text); }
#endif

}  // namespace

std::shared_ptr<const Model> open_model(const std::string& text) {
  return text.ends_with(".onnx") ? open_onnx(text) : open_builtin(text);
}

Trainer::Trainer(const TrainOptions& options) : Trainer(open_model(options.model), options) {}

PlanReport plan_training(const TrainOptions& options) { return plan_training(open_model(options.model), options); }

}  // namespace neap
