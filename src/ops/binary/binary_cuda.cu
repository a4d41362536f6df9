#include "device/cuda/map.cuh"
#include "ops/binary/binary.h"
#include "ops/binary/binary_formulas.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/elementwise/broadcast.h"

namespace neap::ops {
namespace {

__device__ bool holds(BinaryFn fn, float a, float b) {
  switch (fn) {
    case BinaryFn::kEqual: return a == b;
    case BinaryFn::kLess: return a < b;
    case BinaryFn::kLessOrEqual: return a <= b;
    case BinaryFn::kGreater: return a > b;
    default: return a >= b;
  }
}

struct Added {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Multiplied {
  __device__ float operator()(float a, float b) const { return a * b; }
};

template <class T, class A, class B>
void run_plain(const Buffers& b, cudaStream_t stream, BinaryFn fn, std::int64_t n) {
  if (fn == BinaryFn::kAdd) return map2("add", n, b.out<T>(0), b.in<A>(0), b.in<B>(1), Added(), stream);
  map2("mul", n, b.out<T>(0), b.in<A>(0), b.in<B>(1), Multiplied(), stream);
}

// Sums and products of two tensors of one shape, f32 or bf16 each.
Prepared plain(const OpCall& call, BinaryFn fn) {
  const bool is_it = (fn == BinaryFn::kAdd || fn == BinaryFn::kMul) && call.shape(0) == call.shape(1);
  const int types = (call.in(0).dtype == DType::kBF16 ? 1 : 0) + (call.in(1).dtype == DType::kBF16 ? 2 : 0) +
                    (call.outputs[0].dtype == DType::kBF16 ? 4 : 0);
  if (!is_it || types == 1 + 2 || types == 4) return Declined{"not two tensors of one shape"};
  return cuda_kernel([fn, types, n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) {
    switch (types) {
      case 0: return run_plain<float, float, float>(b, stream, fn, n);
      case 1: return run_plain<float, Bf16, float>(b, stream, fn, n);
      case 2: return run_plain<float, float, Bf16>(b, stream, fn, n);
      case 5: return run_plain<Bf16, Bf16, float>(b, stream, fn, n);
      case 6: return run_plain<Bf16, float, Bf16>(b, stream, fn, n);
      default: return run_plain<Bf16, Bf16, Bf16>(b, stream, fn, n);
    }
  });
}

// The second is added to every row of the first, four at a time.
bool is_row_sum(const BroadcastPlan& p, BinaryFn fn, const Buffers& b) {
  const bool is_it = fn == BinaryFn::kAdd && p.rank == 2 && p.strides[0][0] == p.dims[1] && p.strides[0][1] == 1 &&
                     p.strides[1][0] == 0 && p.strides[1][1] == 1;
  return is_it && p.dims[1] % 4 == 0 && p.count < (std::int64_t{1} << 31) && is_16_aligned(b.inputs[0]) &&
         is_16_aligned(b.inputs[1]) && is_16_aligned(b.outputs[0]);
}

void run_row_sum(const BroadcastPlan& p, const Buffers& b, cudaStream_t stream) {
  const auto* x = b.in<float4>(0);
  const auto* row = b.in<float4>(1);
  auto* out = b.out<float4>(0);
  each("add", p.count / 4, stream, [=, width = static_cast<std::uint32_t>(p.dims[1] / 4)] __device__(std::int64_t i) {
    const float4 v = x[i];
    const float4 more = row[static_cast<std::uint32_t>(i) % width];
    out[i] = {v.x + more.x, v.y + more.y, v.z + more.z, v.w + more.w};
  });
}

void run_value(const Buffers& b, cudaStream_t stream, BinaryFn fn, const BroadcastPlan& plan) {
  if (is_row_sum(plan, fn, b)) return run_row_sum(plan, b, stream);
  const auto* x = b.in<float>(0);
  const auto* y = b.in<float>(1);
  auto* out = b.out<float>(0);
  each("binary", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<2> places = broadcast_places<2>(plan, i);
    out[i] = binary_value(fn, x[places.at[0]], y[places.at[1]]);
  });
}

void run_comparison(const Buffers& b, cudaStream_t stream, BinaryFn fn, const BroadcastPlan& plan) {
  const auto* x = b.in<float>(0);
  const auto* y = b.in<float>(1);
  auto* out = b.out<std::uint8_t>(0);
  each("comparison", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<2> places = broadcast_places<2>(plan, i);
    out[i] = holds(fn, x[places.at[0]], y[places.at[1]]) ? 1 : 0;
  });
}

void run_gradient(const Buffers& b, cudaStream_t stream, BinaryGradFn fn, const BroadcastPlan& plan) {
  const auto* dy = b.in<float>(0);
  const auto* p = b.in<float>(1);
  const auto* q = b.in<float>(2);
  auto* out = b.out<float>(0);
  each("binary_grad", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<3> places = broadcast_places<3>(plan, i);
    out[i] = binary_gradient(fn, dy[places.at[0]], p[places.at[1]], q[places.at[2]]);
  });
}

}  // namespace

Prepared binary_cuda(const OpCall& call) {
  const BinaryFn fn = binary_fn(call);
  const auto is_float = [](const TensorType& t) { return t.dtype == DType::kF32 || t.dtype == DType::kBF16; };
  if (is_float(call.in(0)) && is_float(call.in(1)) && is_float(call.outputs[0])) {
    if (Prepared made = plain(call, fn); std::holds_alternative<std::unique_ptr<Kernel>>(made)) return made;
  }
  if (call.in(0).dtype != DType::kF32 || call.in(1).dtype != DType::kF32) return Declined{"f32 only"};
  if (call.outputs[0].dtype == DType::kBF16) return Declined{"f32 only"};
  return cuda_kernel([fn, plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](
                         const Buffers& b, cudaStream_t stream) {
    fn >= BinaryFn::kEqual ? run_comparison(b, stream, fn, plan) : run_value(b, stream, fn, plan);
  });
}

Prepared binary_grad_cuda(const OpCall& call) {
  return cuda_kernel([fn = binary_grad_fn(call),
                      plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1), call.shape(2)})](
                         const Buffers& b, cudaStream_t stream) { run_gradient(b, stream, fn, plan); });
}

}  // namespace neap::ops
