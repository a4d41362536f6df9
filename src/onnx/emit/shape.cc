// The same elements in another arrangement, and parts of tensors.
#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/error.h"
#include "onnx/emit/emitter.h"
#include "ops/shape_util/axes.h"

namespace neap::onnx {
namespace {

bool is_known(const Dim& d) { return d.is_number() || !ops::is_unknown(d); }

// Reshape's second input: 0 takes the input's axis of that place, one -1 takes what is left.
Ints target(const Shape& from, const Shape& to) {
  Ints out;
  bool is_open = false;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i].is_number()) {
      if (to[i] == Dim(0)) throw UserError("an axis of no elements has no form in ONNX");
      out.push_back(to[i].number());
    } else if (i < from.rank() && is_known(to[i]) && from[i] == to[i]) {
      out.push_back(0);
    } else {
      if (is_open) throw UserError(fmt::format("{} leaves two axes open", to.text()));
      is_open = true;
      out.push_back(-1);
    }
  }
  return out;
}

// Do axes of one element alone stand in another order? Then the elements lie in memory as they do here.
bool keeps_elements(const Made& x) {
  int last = -1;
  for (const int axis : x.axes) {
    if (x.shape[axis] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

void reshape(Emitter& e, const Node& node) {
  const MadePtr x = e.made(node.inputs[0]);
  const bool stays = keeps_elements(*x);
  const std::string name = stays ? x->name : e.in(node.inputs[0]);
  const Shape from = stays ? permuted(x->shape, x->axes) : x->shape;
  e.out(node.outputs[0], e.add("Reshape", {name, e.ints(target(from, e.shape(node.outputs[0])))}));
}

// Nothing is written: axis k of y is axis perm[k] of x.
void transpose(Emitter& e, const Node& node) {
  const MadePtr x = e.made(node.inputs[0]);
  const int rank = x->shape.rank();
  Ints reversed;
  for (int i = rank; i-- > 0;) reversed.push_back(i);
  const Ints ints = ops::axes_of(node.attrs.ints("perm", reversed), rank);
  const Perm back = inverse(Perm(ints.begin(), ints.end()));
  e.out(node.outputs[0], x->name, compose(back, x->axes));
}

// A stretch of the first axis.
bool cut_first_axis(Emitter& e, const Node& node) {
  const Shape& shape = e.shape(node.inputs[0]);
  const Ints starts = node.attrs.ints("starts");
  if (starts.size() != 1 || node.attrs.ints("axes", {0}) != Ints{0} || node.attrs.ints("steps", {1}) != Ints{1}) {
    return false;
  }
  if (!shape[0].is_number()) return false;
  const std::int64_t size = shape.size(0);
  const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = bound(starts[0]);
  e.out(node.outputs[0], Piece{.whole = e.made(node.inputs[0]),
                               .start = start,
                               .end = std::max(start, bound(node.attrs.ints("ends")[0])),
                               .label = node.name});
  return true;
}

void slice(Emitter& e, const Node& node) {
  if (cut_first_axis(e, node)) return;
  const MadePtr x = e.made(node.inputs[0]);
  const Ints starts = node.attrs.ints("starts");
  Ints all;
  for (std::size_t i = 0; i < starts.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
  Ints axes = node.attrs.ints("axes", all);
  for (std::int64_t& axis : axes) axis = axis_there(axis, x->axes, x->shape.rank());
  const Ints steps = node.attrs.ints("steps", Ints(starts.size(), 1));
  const Names in = {x->name, e.ints(starts), e.ints(node.attrs.ints("ends")), e.ints(axes), e.ints(steps)};
  e.out(node.outputs[0], e.add("Slice", in), x->axes);
}

void split(Emitter& e, const Node& node) {
  const MadePtr x = e.made(node.inputs[0]);
  const int here = ops::axis_of(node.attrs.integer("axis", 0), x->shape.rank());
  Ints sizes;
  for (const Value y : node.outputs) sizes.push_back(e.shape(y).size(here));
  const std::vector<bool> wanted(sizes.size(), true);
  const Names y =
      e.add("Split", {x->name, e.ints(sizes)}, {{"axis", axis_there(here, x->axes, x->shape.rank())}}, wanted);
  for (std::size_t i = 0; i < y.size(); ++i) e.out(node.outputs[i], y[i], x->axes);
}

// All pieces of one whole, in order: the whole again.
bool join_first_axis(Emitter& e, const Node& node) {
  MadePtr whole;
  std::int64_t end = 0;
  for (const Value v : node.inputs) {
    const Piece* p = e.piece(v);
    if (p == nullptr || (whole && p->whole != whole) || p->start != end) return false;
    whole = p->whole;
    end = p->end;
  }
  if (!whole || !(whole->shape[0] == Dim(end))) return false;
  e.out(node.outputs[0], whole);
  return true;
}

// Along another axis, the same stretch of several wholes: that stretch of the wholes joined, which is written once.
bool join_pieces(Emitter& e, const Node& node, int axis) {
  std::vector<MadePtr> wholes;
  const Piece* first = e.piece(node.inputs[0]);
  for (const Value v : node.inputs) {
    const Piece* p = e.piece(v);
    if (p == nullptr || p->start != first->start || p->end != first->end) return false;
    wholes.push_back(p->whole);
  }
  e.out(node.outputs[0], Piece{e.joined(wholes, axis), first->start, first->end, node.name});
  return true;
}

void concat(Emitter& e, const Node& node) {
  const int rank = e.rank(node.inputs[0]);
  const int axis = ops::axis_of(node.attrs.integer("axis"), rank);
  if (axis == 0 ? join_first_axis(e, node) : join_pieces(e, node, axis)) return;
  const Perm axes = e.made(node.inputs[0])->axes;
  Names x;
  for (const Value v : node.inputs) x.push_back(e.moved(v, axes));
  e.out(node.outputs[0], e.add("Concat", x, {{"axis", axis_there(axis, axes, rank)}}), axes);
}

void expand(Emitter& e, const Node& node) {
  const Shape& from = e.shape(node.inputs[0]);
  const Shape& to = e.shape(node.outputs[0]);
  Ints sizes;
  for (int i = 0; i < to.rank(); ++i) {
    const int at = i - (to.rank() - from.rank());
    const bool is_same = at >= 0 && is_known(to[i]) && from[at] == to[i];
    if (!is_same && !to[i].is_number()) throw UserError(fmt::format("{} is not known", to.text()));
    sizes.push_back(is_same ? 1 : to[i].number());
  }
  e.out(node.outputs[0], e.add("Expand", {e.in(node.inputs[0]), e.ints(sizes)}));
}

struct Reduction {
  std::string_view op;
  const char* onnx;
};
constexpr Reduction kReductions[] = {{"reduce_sum", "ReduceSum"},
                                     {"reduce_mean", "ReduceMean"},
                                     {"reduce_max", "ReduceMax"},
                                     {"reduce_min", "ReduceMin"},
                                     {"reduce_prod", "ReduceProd"},
                                     {"reduce_l1", "ReduceL1"},
                                     {"reduce_l2", "ReduceL2"},
                                     {"reduce_log_sum_exp", "ReduceLogSumExp"},
                                     {"reduce_sum_square", "ReduceSumSquare"}};

void reduce(Emitter& e, const Node& node) {
  const auto* row = std::find_if(std::begin(kReductions), std::end(kReductions),
                                 [&](const Reduction& r) { return r.op == node.op->name; });
  const bool keeps = node.attrs.integer("keepdims", 1) != 0;
  const MadePtr x = e.made(node.inputs[0]);
  const Perm axes = keeps ? x->axes : Perm{};
  Ints reduced = node.attrs.ints("axes", {});
  for (std::int64_t& axis : reduced) axis = axis_there(axis, axes, x->shape.rank());
  Attrs attrs = {{"keepdims", static_cast<std::int64_t>(keeps)}};
  Names in = {e.moved(*x, axes)};
  const bool takes_input = row->op == "reduce_sum";  // the others do from opset 18 on
  if (!reduced.empty() && takes_input) in.push_back(e.ints(reduced));
  if (!reduced.empty() && !takes_input) attrs.set("axes", reduced);
  e.out(node.outputs[0], e.add(row->onnx, in, attrs), axes);
}

constexpr EmitEntry kRules[] = {{"reshape", reshape},
                                {"flatten", reshape},
                                {"squeeze", reshape},
                                {"unsqueeze", reshape},
                                {"transpose", transpose},
                                {"slice", slice},
                                {"split", split},
                                {"concat", concat},
                                {"expand", expand},
                                {"reduce_sum", reduce},
                                {"reduce_mean", reduce},
                                {"reduce_max", reduce},
                                {"reduce_min", reduce},
                                {"reduce_prod", reduce},
                                {"reduce_l1", reduce},
                                {"reduce_l2", reduce},
                                {"reduce_log_sum_exp", reduce},
                                {"reduce_sum_square", reduce}};

}  // namespace

std::span<const EmitEntry> emit_shape() { return kRules; }

}  // namespace neap::onnx
