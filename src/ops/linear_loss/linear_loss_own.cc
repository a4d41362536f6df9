// By our own gemm, a tile of rows after the other: all f32, or x, the weight, the bias and dx bf16.
#include <omp.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cpu/bf16.h"
#include "device/cpu/gemm.h"
#include "ops/convert_kernel.h"
#include "ops/linear/linear_simd.h"
#include "ops/linear_loss/linear_loss.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kTileRows = 256;

struct Workspace {
  std::int64_t logits, lse, bias, sums, wide_bias, dx, gemm, bytes;
  bool narrow;

  Workspace(const LinearLossShape& s, std::int64_t rows, bool is_narrow) : narrow(is_narrow) {
    const std::int64_t number = sizeof(float);
    logits = 0;
    lse = logits + align_up(rows * s.classes.classes * number);
    bias = lse + align_up(rows * number);
    sums = bias + align_up(s.classes.classes * number);
    wide_bias = sums + align_up(kLossBlocks * static_cast<std::int64_t>(sizeof(double)));
    dx = wide_bias + (narrow ? align_up(s.classes.classes * number) : 0);
    gemm = dx + (narrow ? align_up(rows * s.in * number) : 0);
    const int threads = omp_get_max_threads();
    std::size_t most = 0;
    for (const GemmShape& shape : {forward(s, rows), data(s, rows), weight(s, rows)}) {
      most = std::max(most, gemm_scratch_bytes(shape, threads));
    }
    bytes = gemm + static_cast<std::int64_t>(most);
  }
  GemmShape forward(const LinearLossShape& s, std::int64_t rows) const {
    return {rows, s.classes.classes, s.in, narrow};
  }
  GemmShape data(const LinearLossShape& s, std::int64_t rows) const { return {rows, s.in, s.classes.classes, narrow}; }
  GemmShape weight(const LinearLossShape& s, std::int64_t rows) const {
    return {s.classes.classes, s.in, rows, narrow};
  }
};

class OwnLoss final : public Kernel {
 public:
  OwnLoss(const LinearLossShape& s, bool narrow)
      : s_(s), tile_(std::min(kTileRows, s.classes.rows)), places_(s, tile_, narrow) {}
  std::int64_t workspace_bytes() const override { return places_.bytes; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const ClassRows& c = s_.classes;
    scale_ = loss_scale(c, b.in<void>(3), s_.mean);
    bias_ = b.in<float>(2);
    if (s_.bias && places_.narrow) {
      auto* wide = reinterpret_cast<float*>(b.workspace + places_.wide_bias);
      widen_cpu(b.inputs[2], wide, c.classes);
      bias_ = wide;
    }
    double loss = 0;
    for (std::int64_t first = 0; first < c.rows; first += tile_) loss += run_tile(b, first);
    if (b.out<float>(0) != nullptr) *b.out<float>(0) = static_cast<float>(loss * scale_);
    if (c.rows > 0) return;
    const auto clear = [&](std::size_t i, std::int64_t n) {
      if (b.out<float>(i) != nullptr) std::fill_n(b.out<float>(i), n, 0.0F);
    };
    clear(2, c.classes * s_.in);
    clear(3, c.classes);
  }

 private:
  // The sum of the tile's losses; its parts of the gradients are added.
  double run_tile(const Buffers& b, std::int64_t first) {
    ClassRows c = s_.classes;
    c.rows = std::min(tile_, c.rows - first);
    auto* logits = reinterpret_cast<float*>(b.workspace + places_.logits);
    auto* lse = reinterpret_cast<float*>(b.workspace + places_.lse);
    auto* sums = reinterpret_cast<double*>(b.workspace + places_.sums);
    auto* scratch = reinterpret_cast<float*>(b.workspace + places_.gemm);
    const GemmOperand weight = {b.in<float>(1), s_.in, true, places_.narrow};
    if (s_.bias) linear_table().fill_rows(bias_, logits, c.rows, c.classes);
    gemm_parallel(places_.forward(s_, c.rows), rows_of_x(b, first), weight, {logits, c.classes, s_.bias}, scratch);
    const std::byte* targets = b.in<std::byte>(3) + first * (c.wide ? 8 : 4);
    cross_entropy_table().forward(logits, targets, c, sums, lse);
    double loss = 0;
    for (std::int64_t i = 0; i < std::min(c.rows, kLossBlocks); ++i) loss += sums[i];
    cross_entropy_table().backward(logits, targets, lse, static_cast<float>(scale_), c, logits);
    add_gradients(b, first, c.rows, logits, scratch);
    return loss;
  }

  void add_gradients(const Buffers& b, std::int64_t first, std::int64_t rows, const float* d, float* scratch) const {
    const std::int64_t classes = s_.classes.classes;
    if (b.outputs[1] != nullptr) {
      const bool narrow = places_.narrow;
      auto* dx = narrow ? reinterpret_cast<float*>(b.workspace + places_.dx) : b.out<float>(1) + first * s_.in;
      gemm_parallel(places_.data(s_, rows), {d, classes, false}, {b.in<float>(1), s_.in, false, narrow},
                    {dx, s_.in, false}, scratch);
      if (narrow) narrow_cpu(dx, b.outputs[1] + 2 * first * s_.in, rows * s_.in);
    }
    if (auto* dw = b.out<float>(2)) {
      gemm_parallel(places_.weight(s_, rows), {d, classes, true}, rows_of_x(b, first), {dw, s_.in, first > 0}, scratch);
    }
    if (auto* db = b.out<float>(3)) {
      auto* part = reinterpret_cast<float*>(b.workspace + places_.bias);
      linear_table().column_sums(d, part, rows, classes);
      for (std::int64_t i = 0; i < classes; ++i) db[i] = (first > 0 ? db[i] : 0) + part[i];
    }
  }

  GemmOperand rows_of_x(const Buffers& b, std::int64_t first) const {
    GemmOperand x = {b.in<float>(0), s_.in, false, places_.narrow};
    x.data = gemm_element(x, first * s_.in);
    return x;
  }

  LinearLossShape s_;
  std::int64_t tile_;
  Workspace places_;
  double scale_ = 1;
  const float* bias_ = nullptr;  // f32
};

}  // namespace

Prepared linear_loss_own(const OpCall& call) {
  const LinearLossShape shape = linear_loss_shape(call, 4);
  if (!has_bf16(call)) return std::make_unique<OwnLoss>(shape, false);
  const auto narrow = [](const TensorType& t) { return t.dtype == DType::kBF16; };
  const bool is_plain = narrow(call.in(0)) && narrow(call.in(1)) && (!call.has(2) || narrow(call.in(2))) &&
                        narrow(call.outputs[1]) && !narrow(call.outputs[2]) && !narrow(call.outputs[3]);
  if (!is_plain) return Declined{"a mixture of types"};
  if (!has_bf16_products()) return Declined{"this CPU has no products of bf16"};
  return std::make_unique<OwnLoss>(shape, true);
}

}  // namespace neap::ops
