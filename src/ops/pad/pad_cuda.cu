#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/pad/pad.h"

namespace neap::ops {
namespace {

constexpr int kMostAxes = 8;

struct Axis {
  std::int64_t in, first, kept, begin, out;

  __device__ std::int64_t source(std::int64_t o, PadMode mode) const {
    const std::int64_t p = o - begin;
    if (p >= 0 && p < kept) return first + p;
    switch (mode) {
      case PadMode::kEdge: return first + (p < 0 ? 0 : kept - 1);
      case PadMode::kReflect: return first + (p < 0 ? -p : 2 * kept - 2 - p);
      case PadMode::kWrap: return first + (p % kept + kept) % kept;
      default: return -1;
    }
  }
  // The first output from `o` on that comes from element `at`; -1: none.
  __device__ std::int64_t next(std::int64_t at, std::int64_t o, PadMode mode) const {
    if (kept == out) return o <= at - first ? at - first : -1;  // nothing is padded
    for (; o < out; ++o) {
      if (source(o, mode) == at) return o;
    }
    return -1;
  }
};

struct Problem {
  int rank = 0;
  PadMode mode;
  std::int64_t inputs = 1, outputs = 1;
  Axis axes[kMostAxes];

  Problem(const Shape& x, const Attrs& attrs) : mode(pad_mode(attrs)) {
    for (const PadAxis& a : pad_axes(x, attrs)) {
      axes[rank++] = {a.in, a.first, a.kept, a.begin, a.out()};
      inputs *= a.in;
      outputs *= a.out();
    }
  }
  __device__ std::int64_t source(std::int64_t o) const {
    std::int64_t at = 0;
    std::int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      const std::int64_t s = axes[i].source(o % axes[i].out, mode);
      if (s < 0) return -1;
      at += s * stride;
      stride *= axes[i].in;
      o /= axes[i].out;
    }
    return at;
  }
};

// The outputs that come from one element, in their order.
struct Outputs {
  const Problem& p;
  std::int64_t at[kMostAxes], o[kMostAxes];
  bool is_there = true;

  __device__ Outputs(const Problem& problem, std::int64_t element) : p(problem) {
    for (int i = p.rank - 1; i >= 0; --i) {
      const Axis& a = p.axes[i];
      at[i] = element % a.in;
      element /= a.in;
      const bool is_kept = at[i] >= a.first && at[i] < a.first + a.kept;
      o[i] = is_kept ? a.next(at[i], 0, p.mode) : -1;
      is_there = is_there && o[i] >= 0;
    }
  }
  __device__ std::int64_t place() const {
    std::int64_t sum = 0;
    for (int i = 0; i < p.rank; ++i) sum = sum * p.axes[i].out + o[i];
    return sum;
  }
  __device__ void advance() {
    for (int i = p.rank - 1; i >= 0; --i) {
      o[i] = p.axes[i].next(at[i], o[i] + 1, p.mode);
      if (o[i] >= 0) return;
      o[i] = p.axes[i].next(at[i], 0, p.mode);
    }
    is_there = false;
  }
};

template <class T>
void run_pad(const Buffers& b, cudaStream_t stream, const Problem& p, T constant) {
  const auto* x = b.in<T>(0);
  auto* y = b.out<T>(0);
  each("pad", p.outputs, stream, [=] __device__(std::int64_t o) {
    const std::int64_t from = p.source(o);
    y[o] = from < 0 ? constant : x[from];
  });
}

template <class T>
Prepared kernel(const Problem& problem, std::int64_t value) {
  return cuda_kernel([p = problem, constant = static_cast<T>(value)](const Buffers& b, cudaStream_t stream) {
    run_pad(b, stream, p, constant);
  });
}

constexpr const char* kDeep = "at most eight axes";

}  // namespace

Prepared pad_cuda(const OpCall& call) {
  if (call.shape(0).rank() > kMostAxes) return Declined{kDeep};
  const Problem p(call.shape(0), call.attrs);
  const std::int64_t value = pad_value(call.in(0).dtype, call.attrs.real("value", 0));
  switch (byte_size(call.in(0).dtype, 1)) {
    case 1: return kernel<std::uint8_t>(p, value);
    case 2: return kernel<std::uint16_t>(p, value);
    case 4: return kernel<std::uint32_t>(p, value);
    default: return kernel<std::uint64_t>(p, value);
  }
}

namespace {

void run_pad_grad(const Buffers& b, cudaStream_t stream, const Problem& p) {
  const auto* dy = b.in<float>(0);
  auto* dx = b.out<float>(0);
  each("pad_grad", p.inputs, stream, [=] __device__(std::int64_t i) {
    float sum = 0;
    for (Outputs from(p, i); from.is_there; from.advance()) sum += dy[from.place()];
    dx[i] = sum;
  });
}

}  // namespace

Prepared pad_grad_cuda(const OpCall& call) {
  if (call.shape(0).rank() > kMostAxes) return Declined{kDeep};
  return cuda_kernel([p = Problem(call.outputs[0].shape, call.attrs)](const Buffers& b, cudaStream_t stream) {
    run_pad_grad(b, stream, p);
  });
}

}  // namespace neap::ops
