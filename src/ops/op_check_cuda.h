// For tests of CUDA kernels that look at results themselves, beside what the harness does.
#pragma once

#include <vector>

#include "ops/op_check.h"

namespace neap {

// The node's outputs by the first of its CUDA kernels that takes the call, as a run would choose it; empty: none does.
std::vector<HostTensor> run_node_on_cuda(const OpCall& call, const std::vector<const HostTensor*>& inputs);

}  // namespace neap
