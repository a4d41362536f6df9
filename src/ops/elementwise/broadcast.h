#pragma once

#include <initializer_list>

#include "graph/op.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap::ops {

// UserError when an input does not broadcast to `out` or the pattern has too many axes.
BroadcastPlan broadcast_plan(const Shape& out, std::initializer_list<Shape> inputs);

// `value` summed to `shape`, from which it was broadcast; the value itself when nothing was.
Value sum_to_shape(Builder& g, Value value, const Shape& shape);

}  // namespace neap::ops
