// Each operand's gradient has the output's shape first and is then summed to the operand's own.
#include "ops/binary/binary.h"
#include "ops/elementwise/broadcast.h"

namespace neap::ops {
namespace {

Value to_operand(GradientCall& c, std::size_t i, Value gradient) { return sum_to_operand(c.g, gradient, c.x(i)); }

// dy where the first of the pair wins, and half of it where they tie.
Values gradient_of_choice(GradientCall& c, std::string_view op) {
  Values dx(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.wants(i)) dx[i] = to_operand(c, i, c.g(op, {c.dy[0], c.x(i), c.x(1 - i)}));
  }
  return dx;
}

}  // namespace

Values gradient_add(GradientCall& c) {
  Values dx(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.wants(i)) dx[i] = to_operand(c, i, c.dy[0]);
  }
  return dx;
}

Values gradient_sub(GradientCall& c) {
  Values dx(2);
  if (c.wants(1)) dx[1] = c.g("neg", {to_operand(c, 1, c.dy[0])});
  if (c.wants(0)) dx[0] = to_operand(c, 0, c.dy[0]);
  return dx;
}

Values gradient_mul(GradientCall& c) {
  Values dx(2);
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (c.wants(i)) dx[i] = to_operand(c, i, c.g("mul", {c.dy[0], c.x(1 - i)}));
  }
  return dx;
}

// Reads y and not a, so that y may take a's place.
Values gradient_div(GradientCall& c) {
  Values dx(2);
  if (c.wants(1)) dx[1] = to_operand(c, 1, c.g("div_grad", {c.dy[0], c.y(0), c.x(1)}));
  if (c.wants(0)) dx[0] = to_operand(c, 0, c.g("div", {c.dy[0], c.x(1)}));
  return dx;
}

// a mod b = a - b q, where q is a/b rounded down (or towards zero, as fmod says).
Values gradient_mod(GradientCall& c) {
  Values dx(2);
  if (c.wants(1)) {
    Value q = c.g("div", {c.x(0), c.x(1)});
    if (c.node.attrs.integer("fmod", 0) != 0) {
      q = c.g("mul", {c.g("sign", {q}), c.g("floor", {c.g("abs", {q})})});
    } else {
      q = c.g("floor", {q});
    }
    dx[1] = to_operand(c, 1, c.g("mul", {c.dy[0], c.g("neg", {q})}));
  }
  if (c.wants(0)) dx[0] = to_operand(c, 0, c.dy[0]);
  return dx;
}

Values gradient_pow(GradientCall& c) {
  Values dx(2);
  if (c.wants(1)) dx[1] = to_operand(c, 1, c.g("pow_exponent_grad", {c.dy[0], c.x(0), c.y(0)}));
  if (c.wants(0)) {
    const bool is_f32 = c.g.type(c.x(1)).dtype == DType::kF32;
    const Value exponent = is_f32 ? c.x(1) : c.g("cast", {c.x(1)}, {{"to", std::string("f32")}});
    dx[0] = to_operand(c, 0, c.g("pow_grad", {c.dy[0], c.x(0), exponent}));
  }
  return dx;
}

Values gradient_min(GradientCall& c) { return gradient_of_choice(c, "min_grad"); }
Values gradient_max(GradientCall& c) { return gradient_of_choice(c, "max_grad"); }

}  // namespace neap::ops
