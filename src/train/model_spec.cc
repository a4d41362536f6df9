#include "train/model_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "autodiff/autodiff.h"
#include "neap/error.h"
#include "train/optimizer.h"
#include "train/state.h"

namespace neap {
namespace {

const ModelInfo& find_info(std::string_view name) {
  if (const ModelInfo* info = find_model(name)) return *info;
  std::string known;
  for (const ModelInfo* m : models()) known += fmt::format("{}{}", known.empty() ? "" : ", ", m->name);
  throw UserError(fmt::format("there is no model '{}'; built in are {}", name, known));
}

void set_parameter(ModelContext& c, const ModelInfo& info, std::string_view part) {
  const std::size_t equals = part.find('=');
  const std::string key(part.substr(0, equals));
  const auto at = c.parameters.find(key);
  if (at == c.parameters.end()) {
    std::string known;
    for (const ModelParameter& p : info.parameters) known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
    throw UserError(
        fmt::format("model '{}' has no parameter '{}'; it has {}", info.name, key, known.empty() ? "none" : known));
  }
  const std::string_view text = equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = status == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (!is_number || value < 0 || value > 1e9) {
    throw UserError(fmt::format("model '{}': '{}' is not a value for '{}'", info.name, text, key));
  }
  at->second = value;
}

void read_parameters(ModelContext& c, const ModelInfo& info, std::string_view text) {
  for (const ModelParameter& p : info.parameters) c.parameters[std::string(p.name)] = p.value;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    set_parameter(c, info, text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
}

}  // namespace

ModelSpec resolve_model(const TrainOptions& options) {
  const std::string_view text = options.model;
  const std::size_t colon = text.find(':');
  ModelSpec out;
  out.info = &find_info(text.substr(0, colon));
  ModelContext& c = out.context;
  c.length = options.length > 0 ? options.length : out.info->length;
  c.image = options.image > 0 ? options.image : out.info->image;
  c.channels = out.info->channels;
  c.classes = out.info->classes;
  read_parameters(c, *out.info, colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  if (const auto vocab = c.parameters.find("vocab"); vocab != c.parameters.end()) {
    c.classes = static_cast<std::int64_t>(vocab->second);
  }
  if (const auto context = c.parameters.find("context"); context != c.parameters.end() && c.length > context->second) {
    throw UserError(fmt::format("--length {} is more than the {} positions of '{}'; give {}:context={}", c.length,
                                context->second, out.info->name, out.info->name, c.length));
  }
  out.batch = options.batch > 0 ? options.batch : out.info->batch;
  return out;
}

Graph build_forward(const ModelSpec& spec, Mode mode, bool frozen_batch_norm) {
  Builder g(mode);
  g.freeze_batch_norm(frozen_batch_norm);
  spec.info->build(g, spec.context);
  return g.take();
}

Graph build_training(const ModelSpec& spec, const TrainOptions& options) {
  Graph forward = bind(build_forward(spec, Mode::kTraining, options.freeze_batch_norm), {{"batch", spec.batch}});
  freeze(forward, options.freeze);
  std::vector<TensorId> trained;
  for (const TensorId id : forward.with_role(Role::kParameter)) {
    if (forward.at(id).trainable) trained.push_back(id);
  }
  const auto loss = forward.output("loss");
  require(loss.has_value(), "a model names its loss");
  Builder g(std::move(forward));
  append_updates(g, differentiate(g, *loss, trained), options.optimizer);
  Graph out = g.take();
  verify(out);
  return out;
}

Graph build_evaluation(const ModelSpec& spec, std::int64_t batch) {
  Graph out = bind(build_forward(spec, Mode::kEvaluation, false), {{"batch", batch}});
  verify(out);
  return out;
}

}  // namespace neap
