// Quantized tensors, for models that carry them; nothing here has a gradient.
#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

Attrs attrs_of(const Context& c) {
  return {{"axis", c.integer("axis", 1)}, {"block_size", c.integer("block_size", 0)}};
}

void quantize(Context& c) {
  const DType to = c.has(2) ? c.dtype(2) : c.dtype_attr("output_dtype", DType::kU8);
  Attrs attrs = attrs_of(c);
  attrs.set("dtype", std::string(name(to)));
  Values x = {c.in(0), c.in(1)};
  if (c.has(2)) x.push_back(c.in(2));
  c.out(0, c.add("quantize_linear", x, attrs));
}

void dequantize(Context& c) {
  Values x = {c.in(0), c.in(1)};
  if (c.has(2)) x.push_back(c.in(2));
  c.out(0, c.add("dequantize_linear", x, attrs_of(c)));
}

void matmul_integer(Context& c) {
  Values x = {c.in(0), c.in(1)};
  for (const std::size_t i : {2UL, 3UL}) x.push_back(c.in(i));
  c.out(0, c.add("matmul_integer", x));
}

// Scale and zero point from the data's own range, with 0 in it.
void dynamic_quantize(Context& c) {
  const Value x = c.in(0);
  Ints axes;
  for (int i = 0; i < c.rank(0); ++i) axes.push_back(i);
  const Attrs all = {{"axes", axes}, {"keepdims", std::int64_t{0}}};
  const Value zero = c.g.scalar(0);
  const Value top = c.add("max", {c.add("reduce_max", {x}, all), zero});
  const Value bottom = c.add("min", {c.add("reduce_min", {x}, all), zero});
  const Value scale = c.add("div", {c.add("sub", {top, bottom}), c.g.scalar(255)});
  const Value exact = c.add("neg", {c.add("div", {bottom, scale})});
  const Value point = c.cast(c.add("round", {c.add("clip", {exact}, {{"min", 0.0}, {"max", 255.0}})}), DType::kU8);
  c.out(0, c.add("quantize_linear", {x, scale, point}, {{"axis", std::int64_t{1}}, {"dtype", std::string("u8")}}));
  c.out(1, scale);
  c.out(2, point);
}

constexpr RuleEntry kRules[] = {{"QuantizeLinear", quantize},
                                {"DequantizeLinear", dequantize},
                                {"MatMulInteger", matmul_integer},
                                {"DynamicQuantizeLinear", dynamic_quantize}};

}  // namespace

std::span<const RuleEntry> quantize_rules() { return kRules; }

}  // namespace neap::onnx
