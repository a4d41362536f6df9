// Attention of bf16 on the CPU, where it has instructions for products of bf16.
#include "device/cpu/bf16.h"
#include "ops/attention/attention.h"

namespace neap::ops {
namespace {

bool is_narrow(const OpCall& call, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (call.has(i) && call.in(i).dtype != DType::kBF16) return false;
  }
  return true;
}

// What these kernels do not take: null if nothing.
const char* reason(const AttentionShape& s, bool narrow) {
  if (!narrow) return "not all of it is bf16";
  if (!has_bf16_products()) return "this CPU has no products of bf16";
  return s.depth % 2 != 0 ? "the depth is odd" : nullptr;
}

}  // namespace

Prepared attention_bf16(const OpCall& call) {
  const bool narrow = is_narrow(call, {0, 1, 2}) && call.outputs[0].dtype == DType::kBF16;
  if (const char* why = reason(attention_shape(call, kForwardInputs), narrow)) return Declined{why};
  return attention_by(attention_bf16_table(), call);
}

Prepared attention_grad_bf16(const OpCall& call) {
  bool narrow = is_narrow(call, {0, 1, 2, 3, 4});
  for (const TensorType& t : call.outputs) narrow = narrow && t.dtype == DType::kBF16;
  if (const char* why = reason(attention_shape(call, kBackwardInputs), narrow)) return Declined{why};
  return attention_grad_by(attention_bf16_grad_table(), call);
}

}  // namespace neap::ops
