// The gradient of slices picked by positions, and slices put there: each slice of the result takes in what belongs to
// it in the order of the indices.
#include <limits>

#include "ops/cuda_kernel.h"
#include "ops/gather/lists.cuh"
#include "ops/gather/positions.cuh"
#include "ops/gather/positions_cuda.h"

namespace neap::ops {
namespace {

struct SliceOf {
  DevicePositions positions;
  __device__ std::int64_t operator()(std::int64_t t) const { return positions.at(t) / positions.slice; }
};

// No updates: zeros.
template <class T>
struct ScatterFold {
  const T* data;
  const T* updates;
  Combine how;
  __device__ T first(std::int64_t at) const { return data[at]; }
  __device__ T next(T value, std::int64_t at) const {
    return updates != nullptr ? combined(how, value, updates[at]) : T{0};
  }
};

// Slices of the result.
std::int64_t rows_of(const Positions& p, std::int64_t elements) { return elements == 0 ? 0 : elements / p.slice; }

bool fits(const Positions& p, std::int64_t elements) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return p.sizes.size() <= kMostAxes && p.count < kMost && rows_of(p, elements) < kMost;
}

constexpr const char* kTooMuch = "at most eight axes, and slices that 32 bits count";

template <class T>
void run_scatter(const Buffers& b, cudaStream_t stream, const Positions& p, std::int64_t rows, Combine how) {
  const Lists lists(b.workspace, rows);
  list_picks(rows, p.count, SliceOf{DevicePositions(p, b.in<void>(1), fault_op("scatter"))}, lists, stream);
  fold_lists("scatter", rows, p.slice, lists, ScatterFold<T>{b.in<T>(0), b.in<T>(2), how}, b.out<T>(0), stream);
}

template <class T>
Prepared scatter(const Positions& positions, std::int64_t elements, Combine how) {
  const std::int64_t rows = rows_of(positions, elements);
  return cuda_kernel(
      [p = positions, rows, how](const Buffers& b, cudaStream_t stream) {
        if (rows > 0) run_scatter<T>(b, stream, p, rows, how);
      },
      Lists::bytes(rows, positions.count));
}

Prepared replace(const Positions& positions, std::int64_t elements, std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return scatter<std::uint8_t>(positions, elements, Combine::kReplace);
    case 2: return scatter<std::uint16_t>(positions, elements, Combine::kReplace);
    case 4: return scatter<std::uint32_t>(positions, elements, Combine::kReplace);
    default: return scatter<std::uint64_t>(positions, elements, Combine::kReplace);
  }
}

}  // namespace

Prepared add_slices_cuda(const Positions& positions, std::int64_t elements) {
  if (!fits(positions, elements)) return Declined{kTooMuch};
  const std::int64_t rows = rows_of(positions, elements);
  return cuda_kernel(
      [p = positions, rows](const Buffers& b, cudaStream_t stream) {
        if (rows == 0) return;
        const Lists lists(b.workspace, rows);
        list_picks(rows, p.count, SliceOf{DevicePositions(p, b.in<void>(0), fault_op("gather"))}, lists, stream);
        fold_lists("gather_nd_grad", rows, p.slice, lists, AddFold{b.in<float>(1)}, b.out<float>(0), stream);
      },
      Lists::bytes(rows, positions.count));
}

Prepared scatter_slices_cuda(const Positions& positions, const TensorType& data, Combine how) {
  const std::int64_t elements = data.elements();
  if (!fits(positions, elements)) return Declined{kTooMuch};
  if (how == Combine::kReplace) return replace(positions, elements, byte_size(data.dtype, 1));
  return with_type(data.dtype, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (std::is_arithmetic_v<T>) return scatter<T>(positions, elements, how);
    return Declined{"no sums of floats of 16 bits"};
  });
}

}  // namespace neap::ops
