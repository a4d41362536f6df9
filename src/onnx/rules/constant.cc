// Tensors that come from nothing but their description.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

void constant(Context& c) {
  if (const auto* a = c.find("value")) return c.out(0, read_tensor(a->t(), nullptr, nullptr, c.widens()));
  if (c.has_attr("value_int")) return c.out(0, make_scalar(c.integer("value_int")));
  if (c.has_attr("value_ints")) return c.out(0, make_ints(c.ints("value_ints", {})));
  if (c.has_attr("value_float")) return c.out(0, c.scalar(c.real("value_float", 0), DType::kF32));
  if (!c.has_attr("value_floats")) throw UserError("only tensors and numbers are supported");
  const std::vector<double> wide = c.reals("value_floats");
  const std::vector<float> values(wide.begin(), wide.end());
  const auto bytes = std::as_bytes(std::span(values));
  Constant out;
  out.data = Blob::of({bytes.begin(), bytes.end()});
  out.type = {DType::kF32, {static_cast<std::int64_t>(values.size())}};
  c.out(0, std::move(out));
}

void constant_of_shape(Context& c) {
  const Shape shape = resolved(c.ints(0), {}, false);
  const auto* a = c.find("value");
  if (a == nullptr) return c.out(0, c.add("fill", {}, {{"shape", shape}, {"value", 0.0}}));
  const Constant value = read_tensor(a->t(), nullptr, nullptr, c.widens());
  if (value.type.elements() != 1) throw UserError("the value must be one number");
  c.out(0, c.add("expand", {c.reshape(c.constant_of(value), {})}, {{"shape", shape}}));
}

void range(Context& c) {
  const DType type = c.dtype(0);
  const double start = c.real(0);
  const double delta = c.real(2);
  if (delta == 0) throw UserError("the step is 0");
  const double count = std::max(0.0, std::ceil((c.real(1) - start) / delta));
  if (count > 1e9) throw UserError("the range is too long");
  c.out(0, c.add("range", {},
                 {{"shape", Shape{static_cast<std::int64_t>(count)}},
                  {"start", start},
                  {"delta", delta},
                  {"dtype", std::string(name(type))}}));
}

void eye_like(Context& c) {
  const Ints size = c.sizes(0);
  if (size.size() != 2) throw UserError("it takes a matrix");
  const DType type = c.dtype_attr("dtype", c.dtype(0));
  const Value rows = c.add(
      "range", {},
      {{"shape", Shape{size[0]}}, {"dtype", std::string("i64")}, {"start", static_cast<double>(c.integer("k", 0))}});
  const Value columns = c.add("range", {}, {{"shape", Shape{size[1]}}, {"dtype", std::string("i64")}});
  const Value is_one = c.add("equal", {c.reshape(rows, {size[0], 1}), columns});
  c.out(0, c.cast(is_one, type));
}

constexpr RuleEntry kRules[] = {
    {"Constant", constant}, {"ConstantOfShape", constant_of_shape}, {"Range", range}, {"EyeLike", eye_like}};

}  // namespace

std::span<const RuleEntry> constant_rules() { return kRules; }

}  // namespace neap::onnx
