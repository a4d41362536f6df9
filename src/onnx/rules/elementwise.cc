// Functions of elements. They keep whatever order of axes their operands have.
#include <fmt/format.h>

#include <numeric>

#include "core/random.h"
#include "neap/error.h"
#include "onnx/context.h"
#include "onnx/weights.h"

namespace neap::onnx {
namespace {

struct Rename {
  std::string_view from, to;
};
constexpr Rename kUnary[] = {{"Abs", "abs"},           {"Acos", "acos"},
                             {"Acosh", "acosh"},       {"Asin", "asin"},
                             {"Asinh", "asinh"},       {"Atan", "atan"},
                             {"Atanh", "atanh"},       {"Ceil", "ceil"},
                             {"Cos", "cos"},           {"Cosh", "cosh"},
                             {"Erf", "erf"},           {"Exp", "exp"},
                             {"Floor", "floor"},       {"HardSwish", "hard_swish"},
                             {"IsNaN", "is_nan"},      {"Log", "log"},
                             {"Mish", "mish"},         {"Neg", "neg"},
                             {"Not", "not"},           {"Reciprocal", "reciprocal"},
                             {"Relu", "relu"},         {"Round", "round"},
                             {"Sigmoid", "sigmoid"},   {"Sign", "sign"},
                             {"Sin", "sin"},           {"Sinh", "sinh"},
                             {"Softplus", "softplus"}, {"Softsign", "softsign"},
                             {"Sqrt", "sqrt"},         {"Tan", "tan"},
                             {"Tanh", "tanh"},         {"BitwiseNot", "bitwise_not"}};
constexpr Rename kBinary[] = {{"Add", "add"},
                              {"Sub", "sub"},
                              {"Mul", "mul"},
                              {"Div", "div"},
                              {"And", "and"},
                              {"Or", "or"},
                              {"Xor", "xor"},
                              {"Equal", "equal"},
                              {"Less", "less"},
                              {"LessOrEqual", "less_or_equal"},
                              {"Greater", "greater"},
                              {"GreaterOrEqual", "greater_or_equal"},
                              {"BitwiseAnd", "bitwise_and"},
                              {"BitwiseOr", "bitwise_or"},
                              {"BitwiseXor", "bitwise_xor"}};

template <std::size_t kCount>
std::string_view renamed(const Rename (&table)[kCount], std::string_view op) {
  for (const Rename& row : table) {
    if (row.from == op) return row.to;
  }
  throw InternalError(fmt::format("no name for {}", op));
}

void apply(Context& c, std::string_view op, const Attrs& attrs = {}) {
  Perm axes;
  const Value x = c.as_it_is(0, axes);
  c.out(0, c.add(op, {x}, attrs), axes);
}

void unary(Context& c) { apply(c, renamed(kUnary, c.node.op_type())); }

void binary(Context& c) {
  Perm axes;
  const Values x = c.together({0, 1}, axes);
  c.out(0, c.add(renamed(kBinary, c.node.op_type()), x), axes);
}

void power(Context& c) {
  Perm axes;
  const bool is_square = c.is_constant(1) && c.shape(1).count() == 1 && c.real(1) == 2.0;
  if (is_square && c.dtype(0) == DType::kF32) return apply(c, "square");
  Values x = c.together({0, 1}, axes);
  const DType type = c.dtype(0);
  const DType wide = is_float(type) ? type : DType::kF64;
  for (Value& v : x) v = c.cast(v, wide);
  c.out(0, c.cast(c.add("pow", x), type), axes);
}

void modulo(Context& c) {
  Perm axes;
  const Values x = c.together({0, 1}, axes);
  c.out(0, c.add("mod", x, {{"fmod", c.integer("fmod", 0)}}), axes);
}

void variadic(Context& c) {
  std::vector<std::size_t> which(c.inputs());
  std::iota(which.begin(), which.end(), 0U);
  if (which.empty()) throw UserError("it needs an input");
  Perm axes;
  const Values x = c.together(which, axes);
  const std::string& op = c.node.op_type();
  const std::string_view name = op == "Max" ? "max" : op == "Min" ? "min" : "add";
  Value sum = x[0];
  for (std::size_t i = 1; i < x.size(); ++i) sum = c.add(name, {sum, x[i]});
  if (op == "Mean" && x.size() > 1) sum = c.add("mul", {sum, c.g.scalar(1.0 / static_cast<double>(x.size()))});
  c.out(0, sum, axes);
}

void choose(Context& c) {
  Perm axes;
  c.out(0, c.add("where", c.together({0, 1, 2}, axes)), axes);
}

void convert(Context& c) {
  Perm axes;
  const DType to = c.node.op_type() == "CastLike" ? c.dtype(1) : c.dtype_attr("to", DType::kF32);
  if (c.dtype(0) == to) return c.out(0, c.operand(0));
  const Value x = c.as_it_is(0, axes);
  c.out(0, c.cast(x, to), axes);
}

void identity(Context& c) {
  Operand x = c.operand(0);
  const bool is_own = x.weight && x.weight->trained && x.axes.empty() && is_shared_by_accident(x.weight->first);
  if (is_own) {
    Weight apart{.name = c.node.output(0), .first = x.weight->first};
    x.weight = std::make_shared<Weight>(std::move(apart));
  }
  c.out(0, std::move(x));
}

void clip(Context& c) {
  Perm axes;
  Value x = c.as_it_is(0, axes);
  const bool is_known = (!c.has(1) || c.is_constant(1)) && (!c.has(2) || c.is_constant(2));
  if (is_known && c.dtype(0) == DType::kF32) {
    Attrs attrs;
    if (c.has(1)) attrs.set("min", c.real(1));
    if (c.has(2)) attrs.set("max", c.real(2));
    if (attrs.size() > 0) x = c.add("clip", {x}, attrs);
    return c.out(0, x, axes);
  }
  for (const std::size_t i : {1UL, 2UL}) {
    if (c.has(i) && c.shape(i).count() != 1) throw UserError("the bounds must be numbers");
  }
  if (c.has(1)) x = c.add("max", {x, c.in(1)});
  if (c.has(2)) x = c.add("min", {x, c.in(2)});
  c.out(0, x, axes);
}

void with_alpha(Context& c) {
  const std::string& op = c.node.op_type();
  if (op == "LeakyRelu") return apply(c, "leaky_relu", {{"alpha", c.real("alpha", 0.01)}});
  if (op == "Elu") return apply(c, "elu", {{"alpha", c.real("alpha", 1)}});
  if (op == "Celu") return apply(c, "celu", {{"alpha", c.real("alpha", 1)}});
  apply(c, "thresholded_relu", {{"alpha", c.real("alpha", 1)}});
}

void selu(Context& c) {
  apply(c, "selu",
        {{"alpha", c.real("alpha", 1.67326319217681884765625)}, {"gamma", c.real("gamma", 1.05070102214813232421875)}});
}

void hard_sigmoid(Context& c) {
  apply(c, "hard_sigmoid", {{"alpha", c.real("alpha", 0.2F)}, {"beta", c.real("beta", 0.5)}});
}

void gelu(Context& c) { apply(c, "gelu", {{"approximate", c.text("approximate", "none")}}); }

void shrink(Context& c) { apply(c, "shrink", {{"lambd", c.real("lambd", 0.5)}, {"bias", c.real("bias", 0)}}); }

void prelu(Context& c) {
  Perm axes;
  const Values x = c.together({0, 1}, axes);
  c.out(0, c.add("prelu", x), axes);
}

void is_inf(Context& c) {
  apply(c, "is_inf",
        {{"detect_positive", c.integer("detect_positive", 1)}, {"detect_negative", c.integer("detect_negative", 1)}});
}

void bit_shift(Context& c) {
  Perm axes;
  const Values x = c.together({0, 1}, axes);
  c.out(0,
        c.add("bit_shift", x, {{"direction", std::string(c.text("direction", "LEFT") == "RIGHT" ? "right" : "left")}}),
        axes);
}

// The mask, where it is wanted, is where the result is not zero or the input was.
void dropout(Context& c) {
  const double p = c.has(1) ? c.real(1) : 0.5;
  const bool trains = c.has(2) && c.integer(2) != 0 && c.g.mode() == Mode::kTraining && p > 0;
  Perm axes;
  if (!trains) {
    c.out(0, c.operand(0));
    if (c.wants(1))
      c.out(1, c.add("fill", {}, {{"shape", c.shape(0)}, {"value", 1.0}, {"dtype", std::string("bool")}}));
    return;
  }
  if (c.wants(1)) throw UserError("the mask of a dropout in training is not supported");
  if (!(p < 1)) throw UserError(fmt::format("a dropout of {} leaves nothing", p));
  const Value x = c.as_it_is(0, axes);
  const auto key = static_cast<std::int64_t>(hash_text(c.node.output(0)) >> 1U);
  c.out(0, c.add("dropout", {x, c.g.random_key()}, {{"p", p}, {"key", key}}), axes);
}

constexpr RuleEntry kRules[] = {{"Abs", unary},
                                {"Acos", unary},
                                {"Acosh", unary},
                                {"Asin", unary},
                                {"Asinh", unary},
                                {"Atan", unary},
                                {"Atanh", unary},
                                {"Ceil", unary},
                                {"Cos", unary},
                                {"Cosh", unary},
                                {"Erf", unary},
                                {"Exp", unary},
                                {"Floor", unary},
                                {"HardSwish", unary},
                                {"IsNaN", unary},
                                {"Log", unary},
                                {"Mish", unary},
                                {"Neg", unary},
                                {"Not", unary},
                                {"Reciprocal", unary},
                                {"Relu", unary},
                                {"Round", unary},
                                {"Sigmoid", unary},
                                {"Sign", unary},
                                {"Sin", unary},
                                {"Sinh", unary},
                                {"Softplus", unary},
                                {"Softsign", unary},
                                {"Sqrt", unary},
                                {"Tan", unary},
                                {"Tanh", unary},
                                {"BitwiseNot", unary},
                                {"Add", binary, 7},
                                {"Sub", binary, 7},
                                {"Mul", binary, 7},
                                {"Div", binary, 7},
                                {"And", binary, 7},
                                {"Or", binary, 7},
                                {"Xor", binary, 7},
                                {"Equal", binary, 7},
                                {"Less", binary, 7},
                                {"LessOrEqual", binary},
                                {"Greater", binary, 7},
                                {"GreaterOrEqual", binary},
                                {"BitwiseAnd", binary},
                                {"BitwiseOr", binary},
                                {"BitwiseXor", binary},
                                {"Pow", power, 7},
                                {"Mod", modulo},
                                {"Max", variadic, 8},
                                {"Min", variadic, 8},
                                {"Sum", variadic, 8},
                                {"Mean", variadic, 8},
                                {"Where", choose},
                                {"Cast", convert},
                                {"CastLike", convert},
                                {"Identity", identity},
                                {"Clip", clip, 11},
                                {"LeakyRelu", with_alpha},
                                {"Elu", with_alpha},
                                {"Celu", with_alpha},
                                {"ThresholdedRelu", with_alpha},
                                {"Selu", selu},
                                {"HardSigmoid", hard_sigmoid},
                                {"Gelu", gelu},
                                {"Shrink", shrink},
                                {"PRelu", prelu, 7},
                                {"IsInf", is_inf},
                                {"BitShift", bit_shift},
                                {"Dropout", dropout, 12}};

}  // namespace

std::span<const RuleEntry> elementwise_rules() { return kRules; }

}  // namespace neap::onnx
