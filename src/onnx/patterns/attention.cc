#include <cmath>
#include <set>

#include "neap/error.h"
#include "onnx/patterns/match.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx {
namespace {

constexpr double kNever = -1e29;  // added to a score, or put in its place: that key is not seen

// A tensor with its axes in another order: axis j is axis perm[j] of `id`.
struct Moved {
  TensorId id;
  Ints perm = {0, 1, 2, 3};
};

struct Scores {
  Moved q, k;  // [batch, heads, queries, depth], [batch, heads, depth, keys]
  double scale = 1;
  TensorId added;   // a mask that is added
  TensorId chosen;  // one that says which scores stay; the others become `never`
  TensorId never;
};

Ints perm_of(const Node& transpose) { return transpose.attrs.ints("perm", {}); }

// Multiplied by or divided by a number: the number, and what stands before it.
bool take_scale(const Match& m, TensorId& id, double& scale) {
  if (const Node* div = m.from(id, "div")) {
    const auto n = m.number(div->inputs[1]);
    if (!n || *n == 0) return false;
    scale /= *n;
    id = div->inputs[0];
    return true;
  }
  const auto by = m.with_number(m.from(id, "mul"));
  if (!by) return false;
  scale *= by->number;
  id = by->x;
  return true;
}

Ints composed(const Ints& first, const Ints& second) {
  Ints out;
  for (const std::int64_t axis : second) out.push_back(first[static_cast<std::size_t>(axis)]);
  return out;
}

bool is_identity(const Ints& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// Down through transposes and, where `scale` is given, numbers that it is multiplied by.
Moved origin_of(const Match& m, TensorId id, double* scale = nullptr) {
  Moved out{id};
  for (;;) {
    if (const Node* t = m.from(out.id, "transpose")) {
      out.perm = composed(perm_of(*t), out.perm);
      out.id = t->inputs[0];
    } else if (scale == nullptr || !take_scale(m, out.id, *scale)) {
      return out;
    }
  }
}

// Attention has no gradient for its mask.
bool is_trained(const Match& m, TensorId id) {
  std::vector<TensorId> open = {id};
  std::set<TensorId> seen;
  while (!open.empty()) {
    const TensorId at = open.back();
    open.pop_back();
    if (!at || !seen.insert(at).second) continue;
    if (m.graph().at(at).role == Role::kParameter) return true;
    if (const Node* node = m.producer(at)) open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return false;
}

// scores + mask
bool take_added(const Match& m, TensorId& id, TensorId& mask) {
  const Node* sum = m.from(id, "add");
  if (sum == nullptr) return false;
  for (const std::size_t i : {0UL, 1UL}) {
    TensorId scores = sum->inputs[i];
    double unused = 1;
    if (const Node* where = m.from(scores, "where")) scores = where->inputs[1];
    while (take_scale(m, scores, unused)) {
    }
    if (m.from(scores, "matmul") == nullptr) continue;
    id = sum->inputs[i];
    mask = sum->inputs[1 - i];
    return true;
  }
  return false;
}

// where(seen, scores, never)
bool take_chosen(const Match& m, TensorId& id, TensorId& mask, TensorId& never) {
  const Node* where = m.from(id, "where");
  if (where == nullptr) return false;
  const auto fill = m.number(where->inputs[2]);
  if (!fill || !(*fill < kNever)) return false;
  mask = where->inputs[0];
  never = where->inputs[2];
  id = where->inputs[1];
  return true;
}

std::optional<Scores> scores_of(const Match& m, TensorId id) {
  Scores out;
  take_added(m, id, out.added);
  take_chosen(m, id, out.chosen, out.never);
  while (take_scale(m, id, out.scale)) {
  }
  const Node* product = m.from(id, "matmul");
  if (product == nullptr || product->attrs.integer("trans_a", 0) != 0 || product->attrs.integer("trans_b", 0) != 0) {
    return std::nullopt;
  }
  out.scale *= product->attrs.real("alpha", 1);
  const bool has_heads = m.shape(product->inputs[0]).rank() == 4 && m.shape(product->inputs[1]).rank() == 4;
  if (!has_heads) return std::nullopt;
  out.q = origin_of(m, product->inputs[0], &out.scale);
  out.k = origin_of(m, product->inputs[1], &out.scale);
  const bool has_axes = m.shape(out.q.id).rank() == 4 && m.shape(out.k.id).rank() == 4;  // no number added some
  if (!has_axes || is_trained(m, out.added) || is_trained(m, out.chosen)) return std::nullopt;
  return out;
}

// The tensor with its axes in this order, by one transpose at most.
TensorId move(Replacement& r, const Moved& x, const Ints& perm) {
  const Ints whole = composed(x.perm, perm);
  if (is_identity(whole)) return x.id;
  r.nodes.push_back({.op = &op_named("transpose"), .inputs = {x.id}, .attrs = {{"perm", whole}}});
  return made(r.nodes.size() - 1);
}

Shape shape_of(const Match& m, const Moved& x) {
  Shape out;
  for (const std::int64_t axis : x.perm) out.push_back(m.shape(x.id)[static_cast<int>(axis)]);
  return out;
}

// A mask that attention takes: four axes, each as long as the scores' or 1.
bool fits(const Match& m, TensorId mask, const Shape& scores) {
  const Shape& shape = m.shape(mask);
  const DType type = m.graph().at(mask).type.dtype;
  if (type != DType::kF32 && type != DType::kBool) return false;
  if (shape.rank() > 4) return false;
  for (int i = 1; i <= shape.rank(); ++i) {
    if (!(shape[-i] == Dim(1)) && !(shape[-i] == scores[-i])) return false;
  }
  return true;
}

std::optional<Replacement> rule(const Match& m, const Node& node) {
  if (node.op->name != "matmul" || node.attrs.integer("trans_a", 0) != 0 || node.attrs.integer("trans_b", 0) != 0) {
    return std::nullopt;
  }
  TensorId probs = node.inputs[0];
  const Node* dropout = m.from(probs, "dropout");
  if (dropout != nullptr) probs = dropout->inputs[0];
  const Node* softmax = m.from(probs, "softmax");
  if (softmax == nullptr || m.shape(node.inputs[1]).rank() != 4 || m.shape(probs).rank() != 4) return std::nullopt;
  const std::int64_t axis = softmax->attrs.integer("axis", -1);
  if (axis != -1 && axis != 3) return std::nullopt;
  const auto scores = scores_of(m, softmax->inputs[0]);
  if (!scores) return std::nullopt;
  const Shape& shape = m.shape(softmax->inputs[0]);
  for (const TensorId mask : {scores->added, scores->chosen}) {
    if (mask && !fits(m, mask, shape)) return std::nullopt;
  }
  const Moved values = origin_of(m, node.inputs[1]);
  const Shape q = shape_of(m, scores->q);
  const Shape k = shape_of(m, scores->k);
  const Shape v = shape_of(m, values);
  const bool is_even = q[0] == k[0] && q[1] == k[1] && v[0] == q[0] && v[1] == q[1] && v[3] == q[3];
  if (!is_even) return std::nullopt;

  Replacement r;
  const TensorId q2 = move(r, scores->q, {0, 2, 1, 3});
  const TensorId k2 = move(r, scores->k, {0, 3, 1, 2});
  const TensorId v2 = move(r, values, {0, 2, 1, 3});
  TensorId mask = scores->added ? scores->added : scores->chosen;
  if (scores->added && scores->chosen) {
    r.nodes.push_back({.op = &op_named("where"), .inputs = {scores->chosen, scores->added, scores->never}});
    mask = made(r.nodes.size() - 1);
  }
  Attrs attrs = {{"scale", scores->scale}};
  std::vector<TensorId> inputs = {q2, k2, v2, mask};
  if (dropout != nullptr) {
    inputs.push_back(dropout->inputs[1]);
    attrs.set("dropout_p", dropout->attrs.real("p"));
    attrs.set("key", dropout->attrs.integer("key"));
  }
  while (!inputs.back()) inputs.pop_back();
  r.nodes.push_back({.op = &op_named("attention"), .inputs = inputs, .attrs = attrs});
  const std::size_t at = r.nodes.size() - 1;
  move(r, {made(at)}, {0, 2, 1, 3});
  r.outputs = {{at + 1, 0}};
  return r;
}

// transpose(transpose(x)): one of them, or none.
std::optional<Replacement> joined(const Match& m, const Node& node) {
  if (node.op->name != "transpose") return std::nullopt;
  const Node* first = m.from(node.inputs[0], "transpose");
  if (first == nullptr) return std::nullopt;
  const Ints whole = composed(perm_of(*first), perm_of(node));
  const bool is_same = is_identity(whole);
  const char* op = is_same ? "identity" : "transpose";
  Attrs attrs;
  if (!is_same) attrs.set("perm", whole);
  return Replacement{.nodes = {{.op = &op_named(op), .inputs = {first->inputs[0]}, .attrs = attrs}},
                     .outputs = {{0, 0}}};
}

}  // namespace

Graph find_attention(const Graph& graph) { return rewrite(rewrite(graph, rule), joined); }

}  // namespace neap::onnx
