// A product whose left side is read between the pixels while it is needed; each group of channels is one of its own.
#include "ops/conv/window_places.cuh"
#include "ops/cuda_kernel.h"
#include "ops/deform_conv/deform_conv.h"
#include "ops/matmul/tile_product.cuh"

namespace neap::ops {
namespace {

struct DeformWindows {
  using Number = float;
  using Sum = double;
  struct Batch {
    std::int64_t group;
  };
  struct Row {
    WindowRow window;
    std::int64_t pixel;  // of the output
  };
  using Term = WindowTerm;
  static constexpr bool kRightByTerms = true;

  std::int64_t batches, rows, columns, depth;
  DeformConv conv;
  const float *x, *weight, *offset, *bias, *mask;
  float* y;

  DeformWindows(const DeformConv& c, const Buffers& b)
      : batches(c.s.groups),
        rows(c.s.n * c.s.oh * c.s.ow),
        columns(c.s.o / c.s.groups),
        depth(c.s.window.h.kernel * c.s.window.w.kernel * (c.s.c / c.s.groups)),
        conv(c),
        x(b.in<float>(0)),
        weight(b.in<float>(1)),
        offset(b.in<float>(2)),
        bias(b.in<float>(3)),
        mask(b.in<float>(4)),
        y(b.out<float>(0)) {}

  __device__ Batch batch(std::int64_t t) const { return {t}; }
  __device__ Row row(const Batch& /*at*/, std::int64_t i) const { return {window_row(conv.s, i), i}; }
  __device__ Term term(const Batch& /*at*/, std::int64_t l) const { return window_term(conv.s, l); }
  __device__ Number left(const Batch& at, const Row& row, const Term& term) const {
    const ConvShape& s = conv.s;
    const std::int64_t taps = s.window.h.kernel * s.window.w.kernel;
    const std::int64_t c = at.group * (s.c / s.groups) + term.channel;
    const std::int64_t t = (row.pixel * conv.offset_groups + c / (s.c / conv.offset_groups)) * taps + term.tap;
    const double value = conv.sample(x + row.window.image * s.h * s.w * s.c + c,
                                     static_cast<double>(row.window.h + term.h) + offset[2 * t],
                                     static_cast<double>(row.window.w + term.w) + offset[2 * t + 1]);
    return static_cast<float>(mask != nullptr ? value * mask[t] : value);
  }
  __device__ Number right(const Batch& at, std::int64_t l, std::int64_t j) const {
    return weight[(at.group * columns + j) * depth + l];
  }
  __device__ void store(const Batch& at, std::int64_t i, std::int64_t j, Sum sum) const {
    const std::int64_t o = at.group * columns + j;
    y[i * conv.s.o + o] = static_cast<float>(bias != nullptr ? sum + bias[o] : sum);
  }
};

}  // namespace

Prepared deform_conv_cuda(const OpCall& call) {
  return cuda_kernel([conv = deform_conv_of(call)](const Buffers& b, cudaStream_t stream) {
    tile_product("deform_conv", DeformWindows(conv, b), stream);
  });
}

}  // namespace neap::ops
