// Products of bytes less their zero points, in 32 bits that wrap around.
#include "ops/conv/window_places.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/integer_product/integer_product.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/tile_product.cuh"

namespace neap::ops {
namespace {

constexpr int kMostAxes = 8;

// Bytes in device memory, with or without a sign.
struct Bytes {
  const std::uint8_t* data;
  bool is_signed;

  __device__ int operator[](std::int64_t i) const {
    const int value = data[i];
    return is_signed && value > 127 ? value - 256 : value;
  }
};

struct Elements {
  Bytes values, zeros;
  BroadcastPlan plan;

  Elements(const ByteOperand& o, const std::uint8_t* data, const std::uint8_t* zero)
      : values{data, o.is_signed}, zeros{zero, o.is_signed}, plan(o.plan) {}
  __device__ int operator[](std::int64_t i) const {
    return values[i] - (zeros.data != nullptr ? zeros[broadcast_places<1>(plan, i).at[0]] : 0);
  }
};

struct MatmulSizes {
  std::int64_t batches, m, n, k;
  int axes;
  BatchAxis batch[kMostAxes];

  explicit MatmulSizes(const MatmulPlan& p)
      : batches(p.batches()), m(p.m), n(p.n), k(p.k), axes(static_cast<int>(p.batch.size())) {
    for (int i = 0; i < axes; ++i) batch[i] = p.batch[static_cast<std::size_t>(i)];
  }
};

struct ByteMatmul {
  using Number = std::int32_t;
  using Sum = std::uint32_t;
  struct Batch {
    std::int64_t a, b, y;  // first elements
  };
  struct Row {
    std::int64_t first;
  };
  struct Term {
    std::int64_t l;
  };
  static constexpr bool kRightByTerms = false;

  std::int64_t batches, rows, columns, depth;
  MatmulSizes sizes;
  Elements a, b;
  std::int32_t* y;

  ByteMatmul(const MatmulSizes& s, const Elements& a_, const Elements& b_, std::int32_t* y_)
      : batches(s.batches), rows(s.m), columns(s.n), depth(s.k), sizes(s), a(a_), b(b_), y(y_) {}

  __device__ Batch batch(std::int64_t t) const {
    Batch at{0, 0, t * rows * columns};
    for (int i = sizes.axes - 1; i >= 0; --i) {
      const BatchAxis& axis = sizes.batch[i];
      at.a += t % axis.size * axis.a_step;
      at.b += t % axis.size * axis.b_step;
      t /= axis.size;
    }
    return at;
  }
  __device__ Row row(const Batch& at, std::int64_t i) const { return {at.a + i * depth}; }
  __device__ Term term(const Batch& /*at*/, std::int64_t l) const { return {l}; }
  __device__ Number left(const Batch& /*at*/, const Row& row, const Term& term) const { return a[row.first + term.l]; }
  __device__ Number right(const Batch& at, std::int64_t l, std::int64_t j) const { return b[at.b + l * columns + j]; }
  __device__ void store(const Batch& at, std::int64_t i, std::int64_t j, Sum sum) const {
    y[at.y + i * columns + j] = static_cast<std::int32_t>(sum);
  }
};

// Each group of channels is a product of its own.
struct ByteWindows {
  using Number = std::int32_t;
  using Sum = std::uint32_t;
  struct Batch {
    std::int64_t group;
  };
  using Row = WindowRow;
  using Term = WindowTerm;
  static constexpr bool kRightByTerms = true;

  std::int64_t batches, rows, columns, depth;
  ConvShape s;
  Bytes x, weight, x_zero, w_zero;
  bool w_zero_by_channel;
  std::int32_t* y;

  ByteWindows(const ByteConv& conv, const Buffers& b)
      : batches(conv.s.groups),
        rows(conv.s.n * conv.s.od * conv.s.oh * conv.s.ow),
        columns(conv.s.o / conv.s.groups),
        depth(conv.s.window.d.kernel * conv.s.window.h.kernel * conv.s.window.w.kernel * (conv.s.c / conv.s.groups)),
        s(conv.s),
        x{b.in<std::uint8_t>(0), conv.x_signed},
        weight{b.in<std::uint8_t>(1), conv.w_signed},
        x_zero{b.in<std::uint8_t>(2), conv.x_signed},
        w_zero{b.in<std::uint8_t>(3), conv.w_signed},
        w_zero_by_channel(conv.w_zero_by_channel),
        y(b.out<std::int32_t>(0)) {}

  __device__ Batch batch(std::int64_t t) const { return {t}; }
  __device__ Row row(const Batch& /*at*/, std::int64_t i) const { return window_row(s, i); }
  __device__ Term term(const Batch& /*at*/, std::int64_t l) const { return window_term(s, l); }
  __device__ Number left(const Batch& at, const Row& row, const Term& term) const {
    const std::int64_t d = row.d + term.d, h = row.h + term.h, w = row.w + term.w;
    const bool is_in = d >= 0 && d < s.d && h >= 0 && h < s.h && w >= 0 && w < s.w;
    if (!is_in) return 0;
    const std::int64_t pixel = ((row.image * s.d + d) * s.h + h) * s.w + w;
    return x[pixel * s.c + at.group * (s.c / s.groups) + term.channel] - (x_zero.data != nullptr ? x_zero[0] : 0);
  }
  __device__ Number right(const Batch& at, std::int64_t l, std::int64_t j) const {
    const std::int64_t o = at.group * columns + j;
    return weight[o * depth + l] - (w_zero.data != nullptr ? w_zero[w_zero_by_channel ? o : 0] : 0);
  }
  __device__ void store(const Batch& at, std::int64_t i, std::int64_t j, Sum sum) const {
    y[i * s.o + at.group * columns + j] = static_cast<std::int32_t>(sum);
  }
};

}  // namespace

Prepared matmul_integer_cuda(const OpCall& call) {
  const MatmulPlan plan = matmul_plan(call);
  if (plan.batch.size() > kMostAxes) return Declined{"at most eight axes of batches"};
  return cuda_kernel([s = MatmulSizes(plan), a = byte_operand(call, 0), b = byte_operand(call, 1)](
                         const Buffers& buffers, cudaStream_t stream) {
    const Elements left(a, buffers.in<std::uint8_t>(0), buffers.in<std::uint8_t>(2));
    const Elements right(b, buffers.in<std::uint8_t>(1), buffers.in<std::uint8_t>(3));
    tile_product("matmul_integer", ByteMatmul(s, left, right, buffers.out<std::int32_t>(0)), stream);
  });
}

Prepared conv_integer_cuda(const OpCall& call) {
  return cuda_kernel([conv = byte_conv(call)](const Buffers& b, cudaStream_t stream) {
    tile_product("conv_integer", ByteWindows(conv, b), stream);
  });
}

}  // namespace neap::ops
