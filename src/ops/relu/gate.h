#pragma once

#include "ops/kernel.h"
#include "ops/relu/gate_simd.h"

namespace neap::ops {

struct GateCall {
  GateFn fn;
  GateArgs args;
};
GateCall gate_call(const OpCall& call);

[[gnu::weak]] Prepared gate_cuda(const OpCall& call);
[[gnu::weak]] Prepared gate_grad_cuda(const OpCall& call);
Prepared gate_ref(const OpCall& call);
Prepared gate_grad_ref(const OpCall& call);

}  // namespace neap::ops
