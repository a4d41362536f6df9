#include "ops/elementwise/broadcast.h"

#include <fmt/format.h>

#include <vector>

#include "neap/error.h"

namespace neap::ops {
namespace {

struct Axis {
  std::int64_t size = 1;
  std::int64_t stride[BroadcastPlan::kMaxInputs] = {};
};

// Steps of one dense input along the axes of the output.
void set_strides(std::vector<Axis>& axes, const Shape& out, const Shape& in, int input) {
  if (in.rank() > out.rank()) {
    throw UserError(fmt::format("shape {} does not broadcast to {}", in.text(), out.text()));
  }
  std::int64_t step = 1;
  for (int i = 1; i <= in.rank(); ++i) {
    const std::int64_t size = in.size(-i);
    if (size != 1 && size != out.size(-i)) {
      throw UserError(fmt::format("shape {} does not broadcast to {}", in.text(), out.text()));
    }
    axes[static_cast<std::size_t>(out.rank() - i)].stride[input] = size == 1 ? 0 : step;
    step *= size;
  }
}

bool can_merge(const Axis& outer, const Axis& inner, int inputs) {
  for (int i = 0; i < inputs; ++i) {
    if (outer.stride[i] != inner.stride[i] * inner.size) return false;
  }
  return true;
}

}  // namespace

BroadcastPlan broadcast_plan(const Shape& out, std::initializer_list<Shape> inputs) {
  require(inputs.size() <= BroadcastPlan::kMaxInputs, "a broadcast has at most four inputs");
  BroadcastPlan plan;
  plan.inputs = static_cast<int>(inputs.size());
  plan.count = out.count();
  std::vector<Axis> axes;
  for (const Dim& d : out) axes.push_back({.size = d.number()});
  for (int i = 0; const Shape& in : inputs) set_strides(axes, out, in, i++);

  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && can_merge(merged.back(), axis, plan.inputs)) {
      const std::int64_t size = merged.back().size * axis.size;
      merged.back() = axis;
      merged.back().size = size;
    } else {
      merged.push_back(axis);
    }
  }
  if (merged.empty()) merged.push_back({});
  if (merged.size() > BroadcastPlan::kMaxRank) {
    throw UserError(fmt::format("broadcasting to {} alternates over more than {} axes", out.text(),
                                static_cast<int>(BroadcastPlan::kMaxRank)));
  }
  plan.rank = static_cast<int>(merged.size());
  for (std::size_t a = 0; a < merged.size(); ++a) {
    plan.dims[a] = merged[a].size;
    for (int i = 0; i < plan.inputs; ++i) plan.strides[i][a] = merged[a].stride[i];
  }
  return plan;
}

Value sum_to_operand(Builder& g, Value gradient, Value operand) {
  const Shape shape = g.shape(operand);  // a copy: adding a node moves the graph's own
  return g.shape(gradient) == shape ? gradient : g("sum_to", {gradient}, {{"shape", shape}});
}

}  // namespace neap::ops
