// Windows of signals.
#include <numbers>

#include "neap/error.h"
#include "onnx/context.h"

namespace neap::onnx {
namespace {

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N)
void window(Context& c) {
  const std::string& op = c.node.op_type();
  const double a0 = op == "HannWindow" ? 0.5 : op == "HammingWindow" ? 25.0 / 46 : 0.42;
  const double a1 = op == "BlackmanWindow" ? 0.5 : 1 - a0;
  const double a2 = op == "BlackmanWindow" ? 0.08 : 0;
  const std::int64_t size = c.integer(0);
  if (size < 1 || size > (1 << 24)) throw UserError("the window's size is out of range");
  const auto period = static_cast<double>(c.integer("periodic", 1) != 0 ? size : size - 1);
  const auto wave = [&](double turns) {
    const Value n = c.add("range", {}, {{"shape", Shape{size}}, {"delta", 2 * std::numbers::pi * turns / period}});
    return c.add("cos", {n});
  };
  Value y = c.add("sub", {c.g.scalar(a0), c.add("mul", {wave(1), c.g.scalar(a1)})});
  if (a2 != 0) y = c.add("add", {y, c.add("mul", {wave(2), c.g.scalar(a2)})});
  c.out(0, c.cast(y, c.dtype_attr("output_datatype", DType::kF32)));
}

void dft(Context& c) {
  const std::int64_t axis = c.has(2) ? c.integer(2) : c.integer("axis", c.opset < 20 ? 1 : -2);
  Attrs attrs = {{"axis", static_cast<std::int64_t>(plain_axis(axis, c.rank(0)))},
                 {"inverse", c.integer("inverse", 0)},
                 {"onesided", c.integer("onesided", 0)}};
  if (c.has(1)) attrs.set("length", c.integer(1));
  c.out(0, c.add("dft", {c.in(0)}, attrs));
}

void det(Context& c) { c.out(0, c.add("det", {c.in(0)})); }

constexpr RuleEntry kRules[] = {
    {"DFT", dft}, {"Det", det}, {"HannWindow", window}, {"HammingWindow", window}, {"BlackmanWindow", window}};

}  // namespace

std::span<const RuleEntry> signal_rules() { return kRules; }

}  // namespace neap::onnx
