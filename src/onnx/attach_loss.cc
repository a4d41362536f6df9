#include "onnx/attach_loss.h"

#include <fmt/format.h>

#include "core/file.h"

namespace neap::onnx {
namespace {

struct Measure {
  std::string_view name;  // of --loss
  std::string_view op;
  bool has_classes = false;
  int class_axis = -1;
};
constexpr Measure kMeasures[] = {{"cross-entropy", "cross_entropy", true, -1},
                                 {"cross-entropy-channels", "cross_entropy", true, 1},
                                 {"nll", "nll_loss", true, -1},
                                 {"mse", "mse"},
                                 {"l1", "l1_loss"},
                                 {"smooth-l1", "smooth_l1"},
                                 {"bce", "bce_with_logits"}};

std::string known_losses() {
  std::string out;
  for (const Measure& m : kMeasures) out += fmt::format("{}{}", out.empty() ? "" : ", ", m.name);
  return out;
}

const Measure& measure_named(const std::string& name) {
  for (const Measure& m : kMeasures) {
    if (m.name == name) return m;
  }
  throw UserError(fmt::format("there is no loss '{}'; take {}", name, known_losses()));
}

bool is_number(const TensorType& t) { return t.dtype == DType::kF32 && t.shape.count() == 1; }

// The result that is called a loss, or the only one when that is a number.
std::optional<std::string> own_loss(const pb::ModelProto& model, const Importer& importer) {
  const auto& outputs = model.graph().output();
  for (const auto& o : outputs) {
    const bool is_called_so = o.name().find("loss") != std::string::npos;
    if (is_called_so && is_number(importer.operand(o.name()).type)) return o.name();
  }
  if (outputs.size() == 1 && is_number(importer.operand(outputs[0].name()).type)) return outputs[0].name();
  return std::nullopt;
}

// "logits" where a result has that name, else the first of floats.
std::string result_for_loss(const pb::ModelProto& model, const Importer& importer) {
  std::string first;
  for (const auto& o : model.graph().output()) {
    const TensorType& type = importer.operand(o.name()).type;
    if (type.dtype != DType::kF32 || type.shape.rank() == 0) continue;
    if (o.name() == "logits") return o.name();
    if (first.empty()) first = o.name();
  }
  if (first.empty()) throw UserError("the model has no result of floats to put a loss behind");
  return first;
}

}  // namespace

std::int64_t attach_loss(const pb::ModelProto& model, Importer& importer, const BuildRequest& request) {
  Builder& g = importer.builder();
  if (request.loss.empty()) {
    const auto own = own_loss(model, importer);
    if (!own) throw UserError(fmt::format("the model has no loss of its own; give --loss ({})", known_losses()));
    const Value loss = importer.result(*own);
    g.output("loss", g.shape(loss).rank() == 0 ? loss : g("reshape", {loss}, {{"shape", Shape{}}}));
    return 0;
  }
  const Measure& m = measure_named(request.loss);
  const std::string from = result_for_loss(model, importer);
  const Shape shape = importer.operand(from).type.shape;
  if (g.graph().has_name(std::string(kTargetInput))) {
    throw UserError(fmt::format("the model has an input '{}' already", kTargetInput));
  }
  const bool by_channels = m.class_axis == 1 && shape.rank() > 2;
  const Value y = importer.result(from, by_channels ? channels_last(shape.rank()) : Perm{});
  if (!m.has_classes) {
    const Value target = g.input(std::string(kTargetInput), DType::kF32, g.shape(y));
    g.output("loss", g(m.op, {y, target}, {}, "loss"));
    return 0;
  }
  if (shape.rank() < 2)
    throw UserError(fmt::format("result '{}' is {}: it has no classes", printable(from), shape.text()));
  Shape rows;
  for (int i = 0; i + 1 < g.shape(y).rank(); ++i) rows.push_back(g.shape(y)[i]);
  const Value target = g.input(std::string(kTargetInput), DType::kI32, rows);
  g.output("loss", g(m.op, {y, target}, {}, "loss"));
  g.output("logits", y);
  if (request.mode == Mode::kEvaluation) g.output("correct", g("correct_count", {y, target}, {}, "correct"));
  return g.shape(y).size(-1);
}

}  // namespace neap::onnx
