#include <algorithm>

#include "onnx/patterns/match.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

// The last axes, reduced with their places kept; gives the first of them.
std::optional<int> last_axes(const Match& m, const Node* mean) {
  const int rank = m.shape(mean->inputs[0]).rank();
  Ints axes = mean->attrs.ints("axes", {});
  if (axes.empty() || mean->attrs.integer("keepdims", 1) == 0) return std::nullopt;
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) return std::nullopt;
  }
  return static_cast<int>(axes[0]);
}

TensorId squared(const Match& m, TensorId id) {
  if (const Node* square = m.from(id, "square")) return square->inputs[0];
  if (const Node* pow = m.from(id, "pow")) return m.number(pow->inputs[1]) == 2.0 ? pow->inputs[0] : TensorId{};
  const Node* mul = m.from(id, "mul");
  return mul != nullptr && mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : TensorId{};
}

struct Root {
  TensorId of;  // whose mean square it is
  double epsilon = 0;
  int axis = 0;
};

// sqrt(mean(of^2) + epsilon)
std::optional<Root> root_of(const Match& m, TensorId id) {
  const Node* root = m.from(id, "sqrt");
  if (root == nullptr) return std::nullopt;
  const auto plus = m.with_number(m.from(root->inputs[0], "add"));
  const Node* mean = plus ? m.from(plus->x, "reduce_mean") : nullptr;
  const TensorId of = mean != nullptr ? squared(m, mean->inputs[0]) : TensorId{};
  if (!of) return std::nullopt;
  const auto axis = last_axes(m, mean);
  if (!axis) return std::nullopt;
  return Root{of, plus->number, *axis};
}

struct Normalised {
  TensorId x;
  double epsilon = 0;
  int axis = 0;
  bool has_mean = false;  // taken off: layer norm; else rms norm
};

// of / root, or of * (1 / root)
std::optional<Normalised> normalised(const Match& m, const Node& node) {
  std::optional<Root> root;
  TensorId top;
  if (node.op->name == "div") {
    top = node.inputs[0];
    root = root_of(m, node.inputs[1]);
  } else if (node.op->name == "mul") {
    for (const std::size_t i : {0UL, 1UL}) {
      const Node* one_over = m.from(node.inputs[i], "reciprocal");
      const Node* div = m.from(node.inputs[i], "div");
      TensorId under;
      if (one_over != nullptr) under = one_over->inputs[0];
      if (div != nullptr && m.number(div->inputs[0]) == 1.0) under = div->inputs[1];
      if (!under) continue;
      root = root_of(m, under);
      top = node.inputs[1 - i];
      if (root) break;
    }
  }
  if (!root || root->of != top) return std::nullopt;
  const Node* sub = m.from(top, "sub");
  const Node* mean = sub != nullptr ? m.from(sub->inputs[1], "reduce_mean") : nullptr;
  const bool is_centred = mean != nullptr && mean->inputs[0] == sub->inputs[0] && last_axes(m, mean) == root->axis;
  if (is_centred) return Normalised{sub->inputs[0], root->epsilon, root->axis, true};
  return Normalised{top, root->epsilon, root->axis, false};
}

std::optional<Replacement> whole(const Match& m, const Node& node) {
  const auto n = normalised(m, node);
  if (!n) return std::nullopt;
  const char* op = n->has_mean ? "layer_norm" : "rms_norm";
  return Replacement{.nodes = {{.op = &op_named(op),
                                .inputs = {n->x},
                                .attrs = {{"epsilon", n->epsilon}, {"axis", static_cast<std::int64_t>(n->axis)}}}},
                     .outputs = {{0, 0}}};
}

bool fits(const Match& m, TensorId id, const Node& norm) {
  const Shape& x = m.shape(norm.inputs[0]);
  const auto axis = static_cast<int>(norm.attrs.integer("axis", -1));
  const int first = axis < 0 ? axis + x.rank() : axis;
  Shape inner;
  for (int i = first; i < x.rank(); ++i) inner.push_back(x[i]);
  return m.shape(id) == inner && m.is_leaf(id) && m.graph().at(id).type.dtype == DType::kF32;
}

// y * scale, y + bias behind a norm that has neither yet.
std::optional<Replacement> with_affine(const Match& m, const Node& node) {
  const bool is_mul = node.op->name == "mul";
  if ((!is_mul && node.op->name != "add") || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t i : {0UL, 1UL}) {
    const TensorId y = node.inputs[i];
    const TensorId other = node.inputs[1 - i];
    const Node* norm = m.from(y, "layer_norm");
    if (norm == nullptr && is_mul) norm = m.from(y, "rms_norm");
    if (norm == nullptr || m.readers(y) != 1 || norm->outputs[0] != y || !fits(m, other, *norm)) continue;
    const bool is_free = is_mul ? norm->inputs.size() < 2 : norm->inputs.size() == 2;
    if (!is_free) continue;
    Node better{.op = norm->op, .inputs = norm->inputs, .attrs = norm->attrs};
    better.inputs.push_back(other);
    return Replacement{.nodes = {better}, .outputs = {{0, 0}}};
  }
  return std::nullopt;
}

}  // namespace

Graph find_norms(Graph graph) {
  graph = rewrite(graph, whole);
  graph = rewrite(graph, with_affine);  // the scale
  return rewrite(graph, with_affine);   // the bias, now that the scale is there
}

}  // namespace neap::onnx
