// A built-in model with its parameters, as a Model.
#include <fmt/format.h>

#include "neap/error.h"
#include "parameters.h"
#include "registry.h"

namespace neap {
namespace {

const ModelInfo& find_info(std::string_view name) {
  if (const ModelInfo* info = find_model(name)) return *info;
  std::string known;
  for (const ModelInfo* m : models()) known += fmt::format("{}{}", known.empty() ? "" : ", ", m->name);
  throw UserError(fmt::format("there is no model '{}'; built in are {}", name, known));
}

class BuiltinModel final : public Model {
 public:
  explicit BuiltinModel(std::string_view text) : name_(text), info_(find_info(text.substr(0, text.find(':')))) {
    context_ = {.length = info_.length, .image = info_.image, .channels = info_.channels, .classes = info_.classes};
    const std::size_t colon = text.find(':');
    context_.parameters =
        read_parameters(info_, colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
    const auto vocab = context_.parameters.find("vocab");
    if (vocab != context_.parameters.end()) context_.classes = static_cast<std::int64_t>(vocab->second);
  }

  std::string name() const override { return name_; }
  std::int64_t batch() const override { return info_.batch; }

  void build(Builder& g, const BuildRequest& request) const override {
    if (!request.loss.empty() && request.loss != "cross-entropy") {
      throw UserError(fmt::format("--loss {}: the built-in model '{}' has cross-entropy only", request.loss, name_));
    }
    ModelContext c = context_;
    if (request.length > 0) c.length = request.length;
    if (request.image > 0) c.image = request.image;
    c.padded = request.padded;
    check_length(c);
    g.freeze_batch_norm(request.frozen_batch_norm.value_or(false));
    info_.build(g, c);
  }

  bool takes_padding() const override { return info_.takes_padding; }
  std::int64_t bound(std::string_view input) const override { return input == "image" ? 0 : context_.classes; }

 private:
  void check_length(const ModelContext& c) const {
    const auto context = c.parameters.find("context");
    if (context == c.parameters.end() || static_cast<double>(c.length) <= context->second) return;
    throw UserError(fmt::format("--length {} is more than the {} positions of '{}'; give {}:context={}", c.length,
                                context->second, info_.name, info_.name, c.length));
  }

  std::string name_;
  const ModelInfo& info_;
  ModelContext context_;
};

}  // namespace

std::shared_ptr<const Model> open_builtin_model(std::string_view text) {
  return std::make_shared<const BuiltinModel>(text);
}

}  // namespace neap
