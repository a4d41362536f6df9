#include <cmath>

#include "onnx/patterns/match.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

Replacement one(const char* op, TensorId x, Attrs attrs = {}) {
  return {.nodes = {{.op = &op_named(op), .inputs = {x}, .attrs = std::move(attrs)}}, .outputs = {{0, 0}}};
}

// x / sqrt(2), or x * sqrt(1/2)
TensorId scaled_by_root_half(const Match& m, TensorId id) {
  const Node* div = m.from(id, "div");
  if (div != nullptr) {
    const auto n = m.number(div->inputs[1]);
    return n && near(*n, std::sqrt(2.0)) ? div->inputs[0] : TensorId{};
  }
  const auto by = m.with_number(m.from(id, "mul"));
  return by && near(by->number, std::sqrt(0.5)) ? by->x : TensorId{};
}

// 1 + erf(x / sqrt(2)); gives x.
TensorId of_erf(const Match& m, TensorId id) {
  const auto plus = m.with_number(m.from(id, "add"));
  if (!plus || plus->number != 1.0) return {};
  const Node* erf = m.from(plus->x, "erf");
  return erf == nullptr ? TensorId{} : scaled_by_root_half(m, erf->inputs[0]);
}

// x^3 in any of its spellings.
bool is_cube(const Match& m, TensorId id, TensorId x) {
  if (const Node* pow = m.from(id, "pow")) return pow->inputs[0] == x && m.number(pow->inputs[1]) == 3.0;
  const Node* mul = m.from(id, "mul");
  if (mul == nullptr) return false;
  for (const int i : {0, 1}) {
    if (mul->inputs[static_cast<std::size_t>(i)] != x) continue;
    const TensorId other = mul->inputs[static_cast<std::size_t>(1 - i)];
    if (const Node* square = m.from(other, "square")) return square->inputs[0] == x;
    const Node* inner = m.from(other, "mul");
    if (inner != nullptr && inner->inputs[0] == x && inner->inputs[1] == x) return true;
  }
  return false;
}

// 1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)); gives x.
TensorId of_tanh(const Match& m, TensorId id) {
  const auto plus = m.with_number(m.from(id, "add"));
  if (!plus || plus->number != 1.0) return {};
  const Node* tanh = m.from(plus->x, "tanh");
  if (tanh == nullptr) return {};
  const auto outer = m.with_number(m.from(tanh->inputs[0], "mul"));
  if (!outer || !near(outer->number, std::sqrt(2 / M_PI))) return {};
  const Node* sum = m.from(outer->x, "add");
  if (sum == nullptr) return {};
  for (const std::size_t i : {0UL, 1UL}) {
    const TensorId x = sum->inputs[i];
    const auto cubed = m.with_number(m.from(sum->inputs[1 - i], "mul"));
    if (cubed && near(cubed->number, 0.044715) && is_cube(m, cubed->x, x)) return x;
  }
  return {};
}

// The factors of a product of three, whatever the order: x, 0.5 and the rest.
template <class Inner>
TensorId half_times(const Match& m, const Node& mul, Inner inner) {
  for (const std::size_t i : {0UL, 1UL}) {
    const TensorId a = mul.inputs[i];
    const TensorId b = mul.inputs[1 - i];
    // (0.5 * x) * rest
    if (const auto half = m.with_number(m.from(a, "mul")); half && half->number == 0.5) {
      const TensorId x = inner(m, b);
      if (x && x == half->x) return x;
    }
    // 0.5 * (x * rest)
    if (m.number(a) == 0.5) {
      const Node* product = m.from(b, "mul");
      for (const std::size_t k : {0UL, 1UL}) {
        if (product == nullptr) break;
        const TensorId x = inner(m, product->inputs[k]);
        if (x && x == product->inputs[1 - k]) return x;
      }
    }
    // x * (0.5 * rest)
    if (const auto half = m.with_number(m.from(b, "mul")); half && half->number == 0.5) {
      const TensorId x = inner(m, half->x);
      if (x && x == a) return x;
    }
  }
  return {};
}

std::optional<Replacement> rule(const Match& m, const Node& node) {
  if (node.op->name != "mul" || node.inputs.size() != 2) return std::nullopt;
  if (const TensorId x = half_times(m, node, of_erf)) return one("gelu", x);
  if (const TensorId x = half_times(m, node, of_tanh)) return one("gelu", x, {{"approximate", std::string("tanh")}});
  for (const std::size_t i : {0UL, 1UL}) {
    const Node* sigmoid = m.from(node.inputs[i], "sigmoid");
    if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[1 - i]) return one("silu", sigmoid->inputs[0]);
  }
  return std::nullopt;
}

}  // namespace

Graph find_activations(const Graph& graph) { return rewrite(graph, rule); }

}  // namespace neap::onnx
