#pragma once

#include <initializer_list>

#include "graph/op.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap::ops {

// UserError when an input does not broadcast to `out` or the pattern has too many axes.
BroadcastPlan broadcast_plan(const Shape& out, std::initializer_list<Shape> inputs);

// The gradient of an operand that was broadcast: summed to the operand's shape; itself when nothing was.
Value sum_to_operand(Builder& g, Value gradient, Value operand);

}  // namespace neap::ops
