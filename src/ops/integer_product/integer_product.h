#pragma once

#include "ops/conv/conv.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap::ops {

// One operand of a product of bytes: element i less its zero point.
struct ByteOperand {
  bool is_signed = false;
  bool has_zero = false;
  BroadcastPlan plan;  // of the zero points over the operand
};

ByteOperand byte_operand(const OpCall& call, std::size_t operand);

struct ByteConv {
  ConvShape s;
  bool x_signed = false, w_signed = false;
  bool w_zero_by_channel = false;
};

ByteConv byte_conv(const OpCall& call);

[[gnu::weak]] Prepared matmul_integer_cuda(const OpCall& call);
[[gnu::weak]] Prepared conv_integer_cuda(const OpCall& call);

}  // namespace neap::ops
