// Rows picked by index, and their gradient: each row of the result adds up what belongs to it in the order of the
// indices, whatever block comes first.
#include "device/cuda/fault.cuh"
#include "ops/cuda_kernel.h"
#include "ops/gather/lists.cuh"
#include "ops/gather/rows.h"

namespace neap::ops {
namespace {

struct Places {
  Indices indices;
  const void* data;
  FaultNote fault;

  // An index out of range is noted for the host, and read as 0.
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t raw =
        indices.wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
    const std::int64_t at = raw < 0 && indices.wraps ? raw + indices.bound : raw;
    return at >= 0 && at < indices.bound ? at : fault(raw, indices.bound);
  }
};

Places places_of(const RowPick& p, const void* data) {
  return {p.indices, data, FaultNote(p.op == "embedding" ? fault_op("embedding") : fault_op("gather"))};
}

template <class T>
void run_pick(const PickShape& s, const Places& places, const T* src, T* dst, cudaStream_t stream) {
  if (s.axis == 0) return;
  constexpr std::int64_t kAtOnce = sizeof(uint4) / sizeof(T);
  if constexpr (kAtOnce > 1) {
    const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % sizeof(uint4) == 0; };
    if (s.inner % kAtOnce == 0 && is_aligned(src) && is_aligned(dst)) {
      PickShape wide = s;
      wide.inner /= kAtOnce;
      return run_pick(wide, places, reinterpret_cast<const uint4*>(src), reinterpret_cast<uint4*>(dst), stream);
    }
  }
  each("pick_rows", s.outer * s.picks * s.inner, stream, [=] __device__(std::int64_t e) {
    const std::int64_t row = e / s.inner;
    dst[e] = src[(row / s.picks * s.axis + places(row % s.picks)) * s.inner + e % s.inner];
  });
}

}  // namespace

Prepared pick_rows_cuda(const RowPick& pick, std::size_t data, std::size_t index) {
  if (pick.element_bytes != 4 && pick.element_bytes != 8) return Declined{"elements of 4 or 8 bytes only"};
  return cuda_kernel([p = pick, data, index](const Buffers& b, cudaStream_t stream) {
    const Places places = places_of(p, b.in<void>(index));
    if (p.element_bytes == 4) {
      run_pick(p.shape, places, b.in<std::uint32_t>(data), b.out<std::uint32_t>(0), stream);
    } else {
      run_pick(p.shape, places, b.in<std::uint64_t>(data), b.out<std::uint64_t>(0), stream);
    }
  });
}

Prepared add_rows_cuda(const RowPick& pick) {
  return cuda_kernel(
      [p = pick](const Buffers& b, cudaStream_t stream) {
        const PickShape& s = p.shape;
        if (s.axis == 0 || s.inner == 0) return;
        const Lists lists(b.workspace, s.axis);
        list_picks(s.axis, s.picks, places_of(p, b.in<void>(0)), lists, stream);
        for (std::int64_t o = 0; o < s.outer; ++o) {
          fold_lists("add_rows", s.axis, s.inner, lists, AddFold{b.in<float>(1) + o * s.picks * s.inner},
                     b.out<float>(0) + o * s.axis * s.inner, stream);
        }
      },
      Lists::bytes(pick.shape.axis, pick.shape.picks));
}

}  // namespace neap::ops
