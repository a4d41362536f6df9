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

}  // namespace

std::shared_ptr<const Model> open_model(const std::string& text) {
  return text.ends_with(".onnx") ? open_onnx(text) : open_builtin_model(text);
}

Trainer::Trainer(const TrainOptions& options) : Trainer(open_model(options.model), options) {}

PlanReport plan_training(const TrainOptions& options) { return plan_training(open_model(options.model), options); }

}  // namespace neap
