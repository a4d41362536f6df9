// Strided copies on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/shape_util/strided.h"

namespace neap::ops {

void copy_strided_cuda(const StridedCopy& copy, const void* src, void* dst, cudaStream_t stream);
void add_strided_cuda(const StridedCopy& copy, const float* src, float* dst, cudaStream_t stream);  // dst += src

}  // namespace neap::ops
