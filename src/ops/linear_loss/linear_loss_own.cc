// By our own gemm, a tile of rows after the other.
#include <omp.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cpu/gemm.h"
#include "ops/linear/linear_simd.h"
#include "ops/linear_loss/linear_loss.h"

namespace neap::ops {
namespace {

constexpr std::int64_t kTileRows = 256;

struct Workspace {
  std::int64_t logits, lse, bias, sums, gemm, bytes;

  Workspace(const LinearLossShape& s, std::int64_t rows) {
    const std::int64_t number = sizeof(float);
    logits = 0;
    lse = logits + align_up(rows * s.classes.classes * number);
    bias = lse + align_up(rows * number);
    sums = bias + align_up(s.classes.classes * number);
    gemm = sums + align_up(kLossBlocks * static_cast<std::int64_t>(sizeof(double)));
    const int threads = omp_get_max_threads();
    std::size_t most = 0;
    for (const GemmShape& shape : {forward(s, rows), data(s, rows), weight(s, rows)}) {
      most = std::max(most, gemm_scratch_bytes(shape, threads));
    }
    bytes = gemm + static_cast<std::int64_t>(most);
  }
  static GemmShape forward(const LinearLossShape& s, std::int64_t rows) { return {rows, s.classes.classes, s.in}; }
  static GemmShape data(const LinearLossShape& s, std::int64_t rows) { return {rows, s.in, s.classes.classes}; }
  static GemmShape weight(const LinearLossShape& s, std::int64_t rows) { return {s.classes.classes, s.in, rows}; }
};

class OwnLoss final : public Kernel {
 public:
  explicit OwnLoss(const LinearLossShape& s) : s_(s), tile_(std::min(kTileRows, s.classes.rows)), places_(s, tile_) {}
  std::int64_t workspace_bytes() const override { return places_.bytes; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    const ClassRows& c = s_.classes;
    scale_ = loss_scale(c, b.in<void>(3), s_.mean);
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
    const float* x = b.in<float>(0) + first * s_.in;
    const GemmOperand weight = {b.in<float>(1), s_.in, true};
    if (s_.bias) linear_table().fill_rows(b.in<float>(2), logits, c.rows, c.classes);
    gemm_parallel(Workspace::forward(s_, c.rows), {x, s_.in, false}, weight, {logits, c.classes, s_.bias}, scratch);
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
    if (auto* dx = b.out<float>(1)) {
      gemm_parallel(Workspace::data(s_, rows), {d, classes, false}, {b.in<float>(1), s_.in, false},
                    {dx + first * s_.in, s_.in, false}, scratch);
    }
    if (auto* dw = b.out<float>(2)) {
      gemm_parallel(Workspace::weight(s_, rows), {d, classes, true}, {b.in<float>(0) + first * s_.in, s_.in, false},
                    {dw, s_.in, first > 0}, scratch);
    }
    if (auto* db = b.out<float>(3)) {
      auto* part = reinterpret_cast<float*>(b.workspace + places_.bias);
      linear_table().column_sums(d, part, rows, classes);
      for (std::int64_t i = 0; i < classes; ++i) db[i] = (first > 0 ? db[i] : 0) + part[i];
    }
  }

  LinearLossShape s_;
  std::int64_t tile_;
  Workspace places_;
  double scale_ = 1;
};

}  // namespace

Prepared linear_loss_own(const OpCall& call) { return std::make_unique<OwnLoss>(linear_loss_shape(call, 4)); }

}  // namespace neap::ops
