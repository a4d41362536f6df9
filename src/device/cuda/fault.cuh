// How a kernel says that it met an index out of range.
#pragma once

#include "device/cuda/cuda.h"

namespace neap {

struct FaultNote {
  CudaFault* fault;
  int op;

  explicit FaultNote(int op_) : fault(CudaContext::get().fault()), op(op_) {}

  // The first one that is met stays; the kernel goes on with index 0.
  __device__ std::int64_t operator()(std::int64_t index, std::int64_t bound) const {
    if (atomicCAS(&fault->is_set, 0, 1) == 0) {
      fault->op = op;
      fault->index = index;
      fault->bound = bound;
    }
    return 0;
  }
};

}  // namespace neap
