// Elements and slices picked by positions, and put there. An element of the result walks along the axis, so that what
// belongs to it comes in the order of the indices.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/gather/positions.cuh"
#include "ops/gather/positions_cuda.h"

namespace neap::ops {
namespace {

template <class T>
Prepared kernel(const Positions& positions) {
  return cuda_kernel([p = positions](const Buffers& b, cudaStream_t stream) {
    const auto* x = b.in<T>(0);
    auto* y = b.out<T>(0);
    each("gather", p.count * p.slice, stream,
         [=, d = DevicePositions(p, b.in<void>(1), fault_op("gather"))] __device__(std::int64_t i) {
           y[i] = x[d.at(i / d.slice) + i % d.slice];
         });
  });
}

// Sizes of the indices.
struct Entries {
  std::int64_t sizes[kMostAxes] = {};

  explicit Entries(const Ints& from) {
    for (std::size_t i = 0; i < from.size(); ++i) sizes[i] = from[i];
  }
};

// f(entry) for those that point to element e, in order: they lie along the axis.
template <class F>
__device__ void each_entry(const DevicePositions& d, const Entries& entries, std::int64_t e, F f) {
  std::int64_t left = e;
  std::int64_t first = 0;
  std::int64_t own = 0;
  for (int i = 0; i < d.rank; ++i) {
    const std::int64_t coordinate = left / d.strides[i];
    left %= d.strides[i];
    if (i == d.axis) {
      own = coordinate;
      continue;
    }
    if (coordinate >= entries.sizes[i]) return;
    first += coordinate * d.entry_strides[i];
  }
  for (std::int64_t k = 0; k < entries.sizes[d.axis]; ++k) {
    const std::int64_t t = first + k * d.entry_strides[d.axis];
    if (d.index(t, d.axis) == own) f(t);
  }
}

}  // namespace

Prepared pick_positions_cuda(const Positions& positions, std::int64_t element_bytes) {
  if (positions.sizes.size() > kMostAxes) return Declined{kDeep};
  switch (element_bytes) {
    case 1: return kernel<std::uint8_t>(positions);
    case 2: return kernel<std::uint16_t>(positions);
    case 4: return kernel<std::uint32_t>(positions);
    default: return kernel<std::uint64_t>(positions);
  }
}

namespace {

void run_add_elements(const Buffers& b, cudaStream_t stream, const Positions& p, const Entries& all,
                      std::int64_t elements) {
  const auto* dy = b.in<float>(1);
  auto* dx = b.out<float>(0);
  const DevicePositions d(p, b.in<void>(0), fault_op("gather"));
  each("gather_grad", elements, stream, [=] __device__(std::int64_t e) {
    float sum = 0;
    each_entry(d, all, e, [&](std::int64_t t) { sum += dy[t]; });
    dx[e] = sum;
  });
}

}  // namespace

Prepared add_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements) {
  if (positions.sizes.size() > kMostAxes) return Declined{kDeep};
  return cuda_kernel([p = positions, all = Entries(entries), elements](const Buffers& b, cudaStream_t stream) {
    run_add_elements(b, stream, p, all, elements);
  });
}

namespace {

void run_scatter_elements(const Buffers& b, cudaStream_t stream, const Positions& p, const Entries& all,
                          std::int64_t elements, Combine how) {
  const auto* data = b.in<float>(0);
  const auto* updates = b.in<float>(2);
  auto* out = b.out<float>(0);
  const DevicePositions d(p, b.in<void>(1), fault_op("scatter"));
  each("scatter", elements, stream, [=] __device__(std::int64_t e) {
    float value = data[e];
    each_entry(d, all, e, [&](std::int64_t t) { value = updates != nullptr ? combined(how, value, updates[t]) : 0; });
    out[e] = value;
  });
}

}  // namespace

Prepared scatter_elements_cuda(const Positions& positions, const Ints& entries, std::int64_t elements, Combine how) {
  if (positions.sizes.size() > kMostAxes) return Declined{kDeep};
  return cuda_kernel([p = positions, all = Entries(entries), elements, how](const Buffers& b, cudaStream_t stream) {
    run_scatter_elements(b, stream, p, all, elements, how);
  });
}

}  // namespace neap::ops
