// Losses that are part of the model.
#include <fmt/format.h>

#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/limits.h"

namespace neap::onnx {
namespace {

bool is_plain(const Context& c) { return !c.has(2) && c.text("reduction", "mean") != "none" && !c.wants(1); }

// -w[t] * log p[t] element by element, for weights and for results that are not summed.
Value spelled_out(Context& c, Value log_probs, std::int64_t ignored, bool ignores) {
  const Shape shape = c.g.shape(log_probs);  // a copy: nodes are added below
  const std::int64_t classes = shape.size(-1);
  const Value targets = c.cast(c.in(1), DType::kI64);
  const Value off = c.scalar(static_cast<double>(ignored), DType::kI64);
  const Value counts = ignores ? c.add("not", {c.add("equal", {targets, off})}) : Value{};
  const Value safe = ignores ? c.add("where", {counts, targets, c.scalar(0, DType::kI64)}) : targets;
  Shape column = c.shape(1);
  column.push_back(1);
  const auto axis = static_cast<std::int64_t>(shape.rank() - 1);
  Value picked = c.add("gather_elements", {log_probs, c.reshape(safe, column)}, {{"axis", axis}});
  picked = c.add("neg", {c.reshape(picked, c.shape(1))});
  if (c.has(2) && !(c.shape(2) == Shape{classes})) throw UserError("the weight must have one number a class");
  Value weight = c.has(2) ? c.add("gather", {c.in(2), safe}) : c.add("ones_like", {picked});
  if (ignores) weight = c.add("where", {counts, weight, c.scalar(0, c.g.type(weight).dtype)});
  const Value loss = c.add("mul", {picked, weight});
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  Ints axes;
  for (int i = 0; i < c.rank(1); ++i) axes.push_back(i);
  const Attrs all = {{"axes", axes}, {"keepdims", std::int64_t{0}}};
  const Value total = c.add("reduce_sum", {loss}, all);
  return reduction == "sum" ? total : c.add("div", {total, c.add("reduce_sum", {weight}, all)});
}

void loss(Context& c) {
  c.need_rank(0, 2, kMaxRank);
  c.need_rank(1, c.rank(0) - 1, c.rank(0) - 1);
  const bool has_logits = c.node.op_type() == "SoftmaxCrossEntropyLoss";
  const bool ignores = c.has_attr("ignore_index");
  const std::int64_t ignored = c.integer("ignore_index", -100);
  const Value x = c.moved(0, channels_last(c.rank(0)));
  if (is_plain(c)) {
    const Attrs attrs = {{"ignore_index", ignored}, {"reduction", c.text("reduction", "mean")}};
    return c.out(0, c.add(has_logits ? "cross_entropy" : "nll_loss", {x, c.in(1)}, attrs));
  }
  const Value log_probs = has_logits ? c.add("log_softmax", {x}) : x;
  c.out(0, spelled_out(c, log_probs, ignored, ignores));
  if (c.wants(1)) c.out(1, log_probs, inverse(channels_last(c.rank(0))));
}

constexpr RuleEntry kRules[] = {{"SoftmaxCrossEntropyLoss", loss}, {"NegativeLogLikelihoodLoss", loss}};

}  // namespace

std::span<const RuleEntry> loss_rules() { return kRules; }

}  // namespace neap::onnx
