// Kernels on CUDA: a function of buffers and stream.
#pragma once

#include <functional>
#include <utility>

#include "device/cuda/cuda.h"
#include "ops/kernel.h"

namespace neap::ops {

class CudaFunctionKernel final : public Kernel {
 public:
  using Function = std::function<void(const Buffers&, cudaStream_t)>;
  CudaFunctionKernel(Function run, std::int64_t workspace) : run_(std::move(run)), workspace_(workspace) {}
  std::int64_t workspace_bytes() const override { return workspace_; }
  void launch(const Buffers& buffers, Stream& stream) override { run_(buffers, handle_of(stream)); }

 private:
  Function run_;
  std::int64_t workspace_;
};

inline Prepared cuda_kernel(CudaFunctionKernel::Function run, std::int64_t workspace = 0) {
  return std::make_unique<CudaFunctionKernel>(std::move(run), workspace);
}

// An output that the op may not have, or that is not wanted.
template <class T>
T* wanted_out(const Buffers& b, std::size_t i) {
  return i < b.outputs.size() ? b.out<T>(i) : nullptr;
}

}  // namespace neap::ops
