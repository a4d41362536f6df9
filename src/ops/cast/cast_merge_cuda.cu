// Several tensors, weights mostly, rounded to bf16 in one launch.
#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "ops/merge_cuda.h"

namespace neap::ops {
namespace {

constexpr std::size_t kMostCasts = 8;
constexpr std::int64_t kBlockElements = kThreads * kVector * 4;

struct Casts {
  struct One {
    const float* from;
    Bf16* to;
    std::int64_t elements;
    unsigned first_block;
  };
  One each[kMostCasts];
  int count;
};

__global__ void __launch_bounds__(kThreads) casts_kernel(const __grid_constant__ Casts t) {
  int i = 0;
  while (i + 1 < t.count && blockIdx.x >= t.each[i + 1].first_block) ++i;
  const Casts::One& c = t.each[i];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x - c.first_block) * kBlockElements;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::int64_t at = first + (k * kThreads + static_cast<int>(threadIdx.x)) * kVector;
    if (at + kVector <= c.elements) {
      float v[kVector];
      load8(c.from + at, v);
      store8(c.to + at, v);
    } else {
      for (std::int64_t j = at; j < c.elements; ++j) c.to[j] = narrow<Bf16>(c.from[j]);
    }
  }
}

bool is_rounding(const BoundCall& c) {
  return is_call_of(c, "cast") && c.call.in(0).dtype == DType::kF32 && c.call.outputs[0].dtype == DType::kBF16 &&
         c.call.in(0).elements() > 0 && are_aligned(c);
}

bool is_another(BoundCalls /*calls*/, const BoundCall& next) { return is_rounding(next); }

MergedRun make_casts(BoundCalls calls) {
  Casts t{};
  unsigned blocks = 0;
  for (const BoundCall* c : calls) {
    const std::int64_t elements = c->call.in(0).elements();
    t.each[t.count++] = {c->buffers.in<float>(0), c->buffers.out<Bf16>(0), elements, blocks};
    blocks += static_cast<unsigned>((elements + kBlockElements - 1) / kBlockElements);
  }
  return [t, blocks](Stream& stream) {
    casts_kernel<<<blocks, kThreads, 0, handle_of(stream)>>>(t);
    check_launch("casts");
  };
}

}  // namespace

constinit const MergeRule kCasts = {
    .starts = is_rounding, .takes = is_another, .make = make_casts, .most = kMostCasts, .reach = 3};

}  // namespace neap::ops
