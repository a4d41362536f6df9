// One kernel switches among the functions: the branch is the same for all threads, and memory is what it waits for.
#include "device/cuda/map.cuh"
#include "ops/cuda_kernel.h"
#include "ops/unary/quick_gelu.cuh"
#include "ops/unary/unary.h"

namespace neap::ops {
namespace {

struct Value {
  UnaryCall u;
  __device__ float operator()(float x) const { return unary_value(u.fn, x, u.args); }
};

struct Slope {
  UnaryCall u;
  __device__ float operator()(float dy, float saved) const { return unary_gradient(u.fn, dy, saved, u.args); }
};

template <class T>
void run_forward(const Buffers& b, cudaStream_t stream, const UnaryCall& u, std::int64_t n) {
  map1("unary", n, b.out<T>(0), b.in<T>(0), Value{u}, stream);
}

template <class T>
void run_backward(const Buffers& b, cudaStream_t stream, const UnaryCall& u, std::int64_t n) {
  map2("unary_grad", n, b.out<T>(0), b.in<T>(0), b.in<T>(1), Slope{u}, stream);
}

void run_bf16_forward(const Buffers& b, cudaStream_t stream, const UnaryCall& u, std::int64_t n) {
  if (u.fn != UnaryFn::kGeluTanh) return run_forward<Bf16>(b, stream, u, n);
  map1("gelu", n, b.out<Bf16>(0), b.in<Bf16>(0), QuickGelu(), stream);
}

void run_bf16_backward(const Buffers& b, cudaStream_t stream, const UnaryCall& u, std::int64_t n) {
  if (u.fn != UnaryFn::kGeluTanh) return run_backward<Bf16>(b, stream, u, n);
  map2("gelu_grad", n, b.out<Bf16>(0), b.in<Bf16>(0), b.in<Bf16>(1), QuickGeluSlope(), stream);
}

}  // namespace

Prepared unary_cuda(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const bool is_float = type == DType::kF32 || type == DType::kBF16;
  if (!is_float || call.outputs[0].dtype != type) return Declined{"f32 or bf16 only"};
  return cuda_kernel([u = unary_call(call), n = call.in(0).elements(), is_f32 = type == DType::kF32](
                         const Buffers& b, cudaStream_t stream) {
    is_f32 ? run_forward<float>(b, stream, u, n) : run_bf16_forward(b, stream, u, n);
  });
}

Prepared unary_grad_cuda(const OpCall& call) {
  const DType type = call.in(0).dtype;
  if (call.in(1).dtype != type || call.outputs[0].dtype != type) return Declined{"one type only"};
  return cuda_kernel([u = unary_call(call), n = call.in(0).elements(), is_f32 = type == DType::kF32](
                         const Buffers& b, cudaStream_t stream) {
    is_f32 ? run_backward<float>(b, stream, u, n) : run_bf16_backward(b, stream, u, n);
  });
}

}  // namespace neap::ops
