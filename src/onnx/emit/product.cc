// Matrix products, attention, rows of tables.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"

namespace neap::onnx {
namespace {

bool has(const Node& node, std::size_t i) { return i < node.inputs.size() && node.inputs[i]; }

// The weight keeps its name and layout; MatMul reads it through a Transpose, which runtimes fold.
void linear(Emitter& e, const Node& node) {
  const bool is_turned = node.attrs.integer("transposed", 0) != 0;
  if (e.rank(node.inputs[0]) == 2) {
    Names x = {e.in(node.inputs[0]), e.in(node.inputs[1])};
    if (has(node, 2)) x.push_back(e.in(node.inputs[2]));
    return e.out(node.outputs[0], e.add("Gemm", x, {{"transB", static_cast<std::int64_t>(!is_turned)}}));
  }
  const std::string weight = is_turned ? e.in(node.inputs[1]) : e.moved(node.inputs[1], {1, 0});
  std::string y = e.add("MatMul", {e.in(node.inputs[0]), weight});
  if (has(node, 2)) y = e.add("Add", {y, e.in(node.inputs[2])});
  e.out(node.outputs[0], y);
}

std::string side(Emitter& e, Value x, bool is_turned) {
  if (!is_turned || e.rank(x) < 2) return e.in(x);
  Perm perm;
  for (int i = 0; i < e.rank(x); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return e.moved(x, perm);
}

void matmul(Emitter& e, const Node& node) {
  std::string y = e.add("MatMul", {side(e, node.inputs[0], node.attrs.integer("trans_a", 0) != 0),
                                   side(e, node.inputs[1], node.attrs.integer("trans_b", 0) != 0)});
  const double alpha = node.attrs.real("alpha", 1);
  if (alpha != 1) y = e.add("Mul", {y, e.scalar(static_cast<float>(alpha))});
  e.out(node.outputs[0], y);
}

void gather(Emitter& e, const Node& node) {
  const std::int64_t axis = axis_there(node.attrs.integer("axis", 0), {}, e.rank(node.inputs[0]));
  e.out(node.outputs[0], e.add("Gather", {e.in(node.inputs[0]), e.in(node.inputs[1])}, {{"axis", axis}}));
}

void embedding(Emitter& e, const Node& node) {
  e.out(node.outputs[0], e.add("Gather", {e.in(node.inputs[0]), e.in(node.inputs[1])}, {{"axis", std::int64_t{0}}}));
}

// 0 where query i sees key j (j <= i + offset), minus infinity elsewhere.
std::string causal_mask(Emitter& e, const Shape& scores, std::int64_t offset) {
  if (!scores[0].is_number() || !scores[1].is_number())
    throw UserError("a causal mask needs a length that is a number");
  if (offset < 0) throw UserError("queries that see no key have no form in ONNX");
  const std::int64_t queries = scores.size(0);
  const std::int64_t keys = scores.size(1);
  std::string name = fmt::format("/causal_mask/{}_{}_{}", queries, keys, offset);
  if (e.has_name(name)) return name;
  std::vector<float> mask(static_cast<std::size_t>(queries * keys));
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = i + offset + 1; j < keys; ++j) {
      mask[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    }
  }
  return e.constant(name, {DType::kF32, scores}, std::as_bytes(std::span(mask)));
}

struct Heads {
  Made q, k, v;  // [batch, time, heads, depth]
};

// One tensor [batch, time, 3, heads, depth] or three.
Heads heads_of(Emitter& e, const Node& node) {
  const bool is_packed = !has(node, 1);
  if (!is_packed) return {*e.made(node.inputs[0]), *e.made(node.inputs[1]), *e.made(node.inputs[2])};
  const Shape& all = e.shape(node.inputs[0]);
  const Shape one = {all[0], all[1], all[3], all[4]};
  const Names parts =
      e.add("Split", {e.in(node.inputs[0]), e.ints({1, 1, 1})}, {{"axis", std::int64_t{2}}}, {true, true, true});
  const auto squeezed = [&](std::size_t i) { return Made{e.add("Squeeze", {parts[i], e.ints({2})}), {}, one}; };
  return {squeezed(0), squeezed(1), squeezed(2)};
}

// softmax(scale q k^T + mask) v, a head at a time.
void attention(Emitter& e, const Node& node) {
  if (has(node, 3)) throw UserError("a mask of attention has no form in ONNX for queries that see no key");
  if (node.attrs.real("dropout_p", 0) > 0) throw UserError("dropout in attention is for training");
  const Heads h = heads_of(e, node);
  if (!(h.q.shape[2] == h.k.shape[2])) throw UserError("heads that share keys are not written");
  const double depth = static_cast<double>(h.q.shape.size(3));
  const double scale = node.attrs.real("scale", 1 / std::sqrt(depth));
  std::string scores = e.add("MatMul", {e.moved(h.q, {0, 2, 1, 3}), e.moved(h.k, {0, 2, 3, 1})});
  scores = e.add("Mul", {scores, e.scalar(static_cast<float>(scale))});
  if (node.attrs.integer("causal", 0) != 0) {
    const Shape plane = {h.q.shape[1], h.k.shape[1]};
    scores = e.add("Add", {scores, causal_mask(e, plane, node.attrs.integer("causal_offset", 0))});
  }
  const std::string shares = e.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  e.out(node.outputs[0], e.add("MatMul", {shares, e.moved(h.v, {0, 2, 1, 3})}), {0, 2, 1, 3});
}

constexpr EmitEntry kRules[] = {
    {"linear", linear}, {"matmul", matmul}, {"gather", gather}, {"embedding", embedding}, {"attention", attention}};

}  // namespace

std::span<const EmitEntry> emit_product() { return kRules; }

}  // namespace neap::onnx
