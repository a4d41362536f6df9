// f32 to bf16 and back, as a cast and around kernels that know f32 alone.
#include "device/cuda/map.cuh"
#include "ops/adding_cuda.h"
#include "ops/cast/cast.h"
#include "ops/convert_kernel.h"
#include "ops/cuda_kernel.h"

namespace neap {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};

struct Added {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace

void widen_cuda(const std::byte* from, float* to, std::int64_t n, Stream& stream) {
  map1("widen", n, to, reinterpret_cast<const Bf16*>(from), Same(), handle_of(stream));
}

void narrow_cuda(const float* from, std::byte* to, std::int64_t n, Stream& stream) {
  map1("narrow", n, reinterpret_cast<Bf16*>(to), from, Same(), handle_of(stream));
}

namespace ops {

void add_widened_cuda(const float* sum, const std::byte* more, float* out, std::int64_t n, cudaStream_t stream) {
  const auto* narrow = reinterpret_cast<const Bf16*>(more);
  if (sum == nullptr) return map1("widen", n, out, narrow, Same(), stream);
  map2("add_widened", n, out, sum, narrow, Added(), stream);
}

Prepared cast_cuda(const OpCall& call) {
  const DType from = call.in(0).dtype;
  const DType to = call.outputs[0].dtype;
  const std::int64_t n = call.in(0).elements();
  if (from == DType::kF32 && to == DType::kBF16) {
    return cuda_kernel([n](const Buffers& b, cudaStream_t stream) {
      map1("cast", n, b.out<Bf16>(0), b.in<float>(0), Same(), stream);
    });
  }
  if (from == DType::kBF16 && to == DType::kF32) {
    return cuda_kernel([n](const Buffers& b, cudaStream_t stream) {
      map1("cast", n, b.out<float>(0), b.in<Bf16>(0), Same(), stream);
    });
  }
  return Declined{"f32 and bf16 only"};
}

}  // namespace ops
}  // namespace neap
