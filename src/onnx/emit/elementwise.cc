// Functions of elements. They keep whatever order of axes their operands have.
#include <cmath>
#include <limits>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

struct Rename {
  std::string_view op, onnx;
};
// One input or several, no attributes.
constexpr Rename kPlain[] = {{"relu", "Relu"},
                             {"sigmoid", "Sigmoid"},
                             {"tanh", "Tanh"},
                             {"erf", "Erf"},
                             {"softplus", "Softplus"},
                             {"softsign", "Softsign"},
                             {"hard_swish", "HardSwish"},
                             {"sqrt", "Sqrt"},
                             {"reciprocal", "Reciprocal"},
                             {"abs", "Abs"},
                             {"exp", "Exp"},
                             {"log", "Log"},
                             {"neg", "Neg"},
                             {"floor", "Floor"},
                             {"ceil", "Ceil"},
                             {"round", "Round"},
                             {"sign", "Sign"},
                             {"sin", "Sin"},
                             {"cos", "Cos"},
                             {"tan", "Tan"},
                             {"asin", "Asin"},
                             {"acos", "Acos"},
                             {"atan", "Atan"},
                             {"sinh", "Sinh"},
                             {"cosh", "Cosh"},
                             {"asinh", "Asinh"},
                             {"acosh", "Acosh"},
                             {"atanh", "Atanh"},
                             {"logical_not", "Not"},
                             {"is_nan", "IsNaN"},
                             {"add", "Add"},
                             {"sub", "Sub"},
                             {"mul", "Mul"},
                             {"div", "Div"},
                             {"min", "Min"},
                             {"max", "Max"},
                             {"pow", "Pow"},
                             {"equal", "Equal"},
                             {"less", "Less"},
                             {"less_or_equal", "LessOrEqual"},
                             {"greater", "Greater"},
                             {"greater_or_equal", "GreaterOrEqual"},
                             {"logical_and", "And"},
                             {"logical_or", "Or"},
                             {"logical_xor", "Xor"},
                             {"where", "Where"}};

void plain(Emitter& e, const Node& node) {
  for (const Rename& row : kPlain) {
    if (row.op != node.op->name) continue;
    Perm axes;
    const Names x = e.together(node.inputs, axes);
    return e.out(node.outputs[0], e.add(std::string(row.onnx), x), axes);
  }
  throw InternalError("an op without a name in ONNX");
}

// `formula` of the name of x gives that of y.
template <class Formula>
void spelled(Emitter& e, const Node& node, Formula formula) {
  Perm axes;
  const std::string x = e.together({node.inputs[0]}, axes)[0];
  e.out(node.outputs[0], formula(x), axes);
}

void identity(Emitter& e, const Node& node) { e.out(node.outputs[0], e.made(node.inputs[0])); }

struct Setting {
  const char* name;
  double fallback;
};

// Attributes of the same names, always written: the defaults differ.
void with_reals(Emitter& e, const Node& node, const char* onnx, std::initializer_list<Setting> settings) {
  Attrs attrs;
  for (const Setting& s : settings) attrs.set(s.name, node.attrs.real(s.name, s.fallback));
  spelled(e, node, [&](const std::string& x) { return e.add(onnx, {x}, attrs); });
}

void leaky_relu(Emitter& e, const Node& node) { with_reals(e, node, "LeakyRelu", {{"alpha", 0.01}}); }
void thresholded_relu(Emitter& e, const Node& node) { with_reals(e, node, "ThresholdedRelu", {{"alpha", 1}}); }
void elu(Emitter& e, const Node& node) { with_reals(e, node, "Elu", {{"alpha", 1}}); }
void celu(Emitter& e, const Node& node) { with_reals(e, node, "Celu", {{"alpha", 1}}); }
void hard_sigmoid(Emitter& e, const Node& node) { with_reals(e, node, "HardSigmoid", {{"alpha", 0.2}, {"beta", 0.5}}); }
void selu(Emitter& e, const Node& node) {
  with_reals(e, node, "Selu", {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}});
}

void clip(Emitter& e, const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto bound = [&](const char* name, double fallback) {
    const double value = node.attrs.real(name, fallback);
    return std::isinf(value) ? std::string() : e.scalar(static_cast<float>(value));
  };
  spelled(e, node, [&](const std::string& x) {
    return e.add("Clip", {x, bound("min", -kInfinity), bound("max", kInfinity)});
  });
}

void is_inf(Emitter& e, const Node& node) {
  const Attrs attrs = {{"detect_negative", node.attrs.integer("detect_negative", 1)},
                       {"detect_positive", node.attrs.integer("detect_positive", 1)}};
  spelled(e, node, [&](const std::string& x) { return e.add("IsInf", {x}, attrs); });
}

// 0.5 x (1 + erf(x / sqrt(2))), or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
void gelu(Emitter& e, const Node& node) {
  const bool is_tanh = node.attrs.text("approximate", "none") == "tanh";
  spelled(e, node, [&](const std::string& x) {
    std::string inner;
    if (is_tanh) {
      const std::string cube = e.add("Mul", {e.add("Mul", {x, x}), x});
      const std::string sum = e.add("Add", {x, e.add("Mul", {cube, e.scalar(0.044715F)})});
      inner = e.add("Tanh", {e.add("Mul", {sum, e.scalar(static_cast<float>(std::sqrt(2 / M_PI)))})});
    } else {
      inner = e.add("Erf", {e.add("Div", {x, e.scalar(static_cast<float>(std::sqrt(2.0)))})});
    }
    const std::string gate = e.add("Add", {inner, e.scalar(1)});
    return e.add("Mul", {e.add("Mul", {x, gate}), e.scalar(0.5F)});
  });
}

void silu(Emitter& e, const Node& node) {
  spelled(e, node, [&](const std::string& x) { return e.add("Mul", {x, e.add("Sigmoid", {x})}); });
}

void mish(Emitter& e, const Node& node) {
  spelled(e, node, [&](const std::string& x) { return e.add("Mul", {x, e.add("Tanh", {e.add("Softplus", {x})})}); });
}

void square(Emitter& e, const Node& node) {
  spelled(e, node, [&](const std::string& x) { return e.add("Mul", {x, x}); });
}

void rsqrt(Emitter& e, const Node& node) {
  spelled(e, node, [&](const std::string& x) { return e.add("Reciprocal", {e.add("Sqrt", {x})}); });
}

void cast(Emitter& e, const Node& node) {
  const std::int64_t to = onnx_type_of(e.graph().at(node.outputs[0]).type.dtype);
  spelled(e, node, [&](const std::string& x) { return e.add("Cast", {x}, {{"to", to}}); });
}

constexpr EmitEntry kOther[] = {{"identity", identity},
                                {"leaky_relu", leaky_relu},
                                {"thresholded_relu", thresholded_relu},
                                {"elu", elu},
                                {"celu", celu},
                                {"selu", selu},
                                {"hard_sigmoid", hard_sigmoid},
                                {"clip", clip},
                                {"is_inf", is_inf},
                                {"gelu", gelu},
                                {"silu", silu},
                                {"mish", mish},
                                {"square", square},
                                {"rsqrt", rsqrt},
                                {"cast", cast}};

}  // namespace

std::span<const EmitEntry> emit_elementwise() {
  static const std::vector<EmitEntry> all = [] {
    std::vector<EmitEntry> out(std::begin(kOther), std::end(kOther));
    for (const Rename& row : kPlain) out.push_back({row.op, plain});
    return out;
  }();
  return all;
}

}  // namespace neap::onnx
