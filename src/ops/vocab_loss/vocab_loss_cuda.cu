// The loss over a vocabulary in parts, on a GPU. The tiles of the logits' gradient lie one behind the other, so that
// the products of all whole tiles are one batch; x's gradient alone adds them up in order.
#include <algorithm>

#include "core/bytes.h"
#include "ops/cuda_kernel.h"
#include "ops/linear_loss/linear_loss_kernels.cuh"
#include "ops/matmul/product_cuda.h"
#include "ops/product_math.h"
#include "ops/vocab_loss/vocab_loss.h"

namespace neap::ops {
namespace {

constexpr int kRowThreads = 256;  // of a row: a tile has at least as many classes, unless there are fewer

struct DeltaRows {
  ClassRows c;
  DeltaPlaces places;
  const float* bias;  // null: none
  const void* targets;
  const float* scale;
  float* logits;  // without the bias; then their gradient
  double* losses;

  __device__ float logit(std::int64_t row, std::int64_t column) const {
    return logits[places.at(row, column)] + (bias != nullptr ? bias[column] : 0);
  }
};

// f(class, where it lies, its logit) for the thread's share of a row.
template <class F>
__device__ void each_class(const DeltaRows& d, std::int64_t row, F f) {
  for (std::int64_t first = 0; first < d.places.classes; first += d.places.tile) {
    const std::int64_t begin = d.places.begin(row, first);
    for (std::int64_t i = threadIdx.x; i < d.places.columns(first); i += kRowThreads) {
      f(first + i, begin + i, d.logits[begin + i] + (d.bias != nullptr ? d.bias[first + i] : 0));
    }
  }
}

// A block a row.
__global__ void __launch_bounds__(kRowThreads) delta_rows_kernel(const __grid_constant__ DeltaRows d) {
  __shared__ float tops[kRowThreads / 32];
  __shared__ double sums[kRowThreads / 32];
  const std::int64_t row = blockIdx.x;
  const std::int64_t target = loss_target(d.c, d.targets, row);
  const bool is_counted = loss_counts(d.c, target);
  RunningSum<float> own;
  each_class(d, row, [&](std::int64_t, std::int64_t, float logit) {
    const float v[kVector] = {logit};
    own.add(v, 1, false);
  });
  const float hit = is_counted ? d.logit(row, target) : 0;  // before anybody writes
  const float top = block_reduce(own.top, Largest(), tops);
  const double exps = block_reduce(
      own.sum == 0 ? 0.0 : static_cast<double>(own.sum) * static_cast<double>(__expf(own.top - top)), Sum(), sums);
  const double level = static_cast<double>(top) + log(exps);
  if (threadIdx.x == 0) d.losses[row] = is_counted ? level - static_cast<double>(hit) : 0;
  const ExpFrom<float> exp_of(static_cast<float>(level));
  const float weight = is_counted ? *d.scale : 0;
  each_class(d, row, [&](std::int64_t column, std::int64_t at, float logit) {
    d.logits[at] = weight == 0 ? 0 : (exp_of(logit) - (column == target ? 1 : 0)) * weight;
  });
}

// A thread a class.
struct BiasGradient {
  DeltaPlaces places;
  const float* delta;
  float* db;
  __device__ void operator()(std::int64_t column) const {
    const std::int64_t first = column / places.tile * places.tile;
    const float* from = delta + places.at(0, column);
    double sum = 0;
    for (std::int64_t r = 0; r < places.rows; ++r) sum += from[r * places.columns(first)];
    db[column] = static_cast<float>(sum);
  }
};

// Whole tiles, and the columns of the one behind them.
struct Tiles {
  std::int64_t whole, rest;
  Tiles(std::int64_t classes, std::int64_t tile) : whole(classes / tile), rest(classes % tile) {}
};

// [rows, columns] = x w^T.
CudaProductShape logits_shape(const VocabShape& s, std::int64_t columns, std::int64_t batches) {
  return {.m = s.rows,
          .n = columns,
          .k = s.in,
          .a = dense_matrix(s.rows, s.in, false),
          .b = dense_matrix(s.in, columns, true),
          .batches = batches,
          .b_step = columns * s.in,
          .tf32 = s.tf32};
}
// x's gradient [rows, in] = delta w.
CudaProductShape input_shape(const VocabShape& s, std::int64_t columns, bool adds) {
  return {.m = s.rows,
          .n = s.in,
          .k = columns,
          .a = dense_matrix(s.rows, columns, false),
          .b = dense_matrix(columns, s.in, false),
          .adds = adds,
          .tf32 = s.tf32};
}
// The weight's gradient [columns, in] = delta^T x.
CudaProductShape weight_shape(const VocabShape& s, std::int64_t columns, std::int64_t batches) {
  return {.m = columns,
          .n = s.in,
          .k = s.rows,
          .a = dense_matrix(columns, s.rows, true),
          .b = dense_matrix(s.rows, s.in, false),
          .batches = batches,
          .a_step = s.rows * columns,
          .tf32 = s.tf32};
}

std::unique_ptr<CudaProduct> product_of(bool is_wanted, const CudaProductShape& shape) {
  return is_wanted ? std::make_unique<CudaProduct>(shape) : nullptr;
}
std::int64_t bytes_of(const std::unique_ptr<CudaProduct>& p) { return p ? p->workspace_bytes() : 0; }
std::string numerics_of(const std::unique_ptr<CudaProduct>& p) { return p ? p->numerics() : ""; }

class CudaDelta final : public Kernel {
 public:
  explicit CudaDelta(const VocabShape& s)
      : s_(s),
        places_(delta_places(s)),
        tiles_(places_.classes, places_.tile),
        logits_(logits_shape(s, places_.tile, tiles_.whole)),
        input_(input_shape(s, places_.tile, false)),
        more_input_(product_of(tiles_.whole > 1, input_shape(s, places_.tile, true))),
        rest_logits_(product_of(tiles_.rest > 0, logits_shape(s, tiles_.rest, 1))),
        rest_input_(product_of(tiles_.rest > 0, input_shape(s, tiles_.rest, true))) {
    scale_at_ = align_up(s.rows * static_cast<std::int64_t>(sizeof(double)));
    product_at_ = scale_at_ + kAlignment;
    bytes_ = product_at_ + std::max({logits_.workspace_bytes(), input_.workspace_bytes(), bytes_of(more_input_),
                                     bytes_of(rest_logits_), bytes_of(rest_input_)});
  }
  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string numerics() const override {
    return logits_.numerics() + input_.numerics() + numerics_of(more_input_) + numerics_of(rest_logits_) +
           numerics_of(rest_input_);
  }

  void launch(const Buffers& b, Stream& stream) override {
    const cudaStream_t on = handle_of(stream);
    auto* losses = reinterpret_cast<double*>(b.workspace);
    auto* scale = reinterpret_cast<float*>(b.workspace + scale_at_);
    make_logits(b, on);
    loss_scale_kernel<<<1, kWideBlock, 0, on>>>(s_.classes, b.in<void>(3), s_.mean, scale);
    check_launch("vocab_delta");
    const DeltaRows rows{s_.classes, places_, b.in<float>(2), b.in<void>(3), scale, b.out<float>(2), losses};
    delta_rows_kernel<<<static_cast<unsigned>(s_.rows), kRowThreads, 0, on>>>(rows);
    check_launch("vocab_delta");
    loss_total_kernel<<<1, kWideBlock, 0, on>>>(s_.rows, losses, scale, b.out<float>(0));
    check_launch("vocab_delta");
    differentiate(b, on);
  }

 private:
  std::int64_t rest_at() const { return tiles_.whole * places_.tile; }  // class

  void make_logits(const Buffers& b, cudaStream_t on) const {
    std::byte* scratch = b.workspace + product_at_;
    logits_.run(b.in<float>(0), b.in<float>(1), nullptr, b.out<float>(2), scratch, on);
    if (!rest_logits_) return;
    rest_logits_->run(b.in<float>(0), b.in<float>(1) + rest_at() * s_.in, nullptr,
                      b.out<float>(2) + rest_at() * s_.rows, scratch, on);
  }

  void differentiate(const Buffers& b, cudaStream_t on) const {
    std::byte* scratch = b.workspace + product_at_;
    for (std::int64_t at = 0; at < places_.classes; at += places_.tile) {
      const CudaProduct& product = at == rest_at() ? *rest_input_ : at == 0 ? input_ : *more_input_;
      product.run(b.out<float>(2) + at * s_.rows, b.in<float>(1) + at * s_.in, nullptr, b.out<float>(1), scratch, on);
    }
    if (auto* db = wanted_out<float>(b, 3)) {
      each("vocab_delta", places_.classes, on, BiasGradient{places_, b.out<float>(2), db});
    }
  }

  VocabShape s_;
  DeltaPlaces places_;
  Tiles tiles_;
  CudaProduct logits_, input_;
  std::unique_ptr<CudaProduct> more_input_, rest_logits_, rest_input_;
  std::int64_t scale_at_ = 0, product_at_ = 0, bytes_ = 0;
};

class CudaVocabWeight final : public Kernel {
 public:
  CudaVocabWeight(const VocabShape& s, std::int64_t first, std::int64_t count)
      : s_(s),
        first_(first),
        tiles_(count, s.tile()),
        whole_(product_of(tiles_.whole > 0, weight_shape(s, s.tile(), tiles_.whole))),
        rest_(product_of(tiles_.rest > 0, weight_shape(s, tiles_.rest, 1))) {}
  std::int64_t workspace_bytes() const override { return std::max(bytes_of(whole_), bytes_of(rest_)); }
  std::string numerics() const override { return numerics_of(whole_) + numerics_of(rest_); }

  void launch(const Buffers& b, Stream& stream) override {
    const float* delta = b.in<float>(1) + first_ * s_.rows;
    const std::int64_t done = tiles_.whole * s_.tile();
    if (whole_) whole_->run(delta, b.in<float>(0), nullptr, b.out<float>(0), b.workspace, handle_of(stream));
    if (!rest_) return;
    rest_->run(delta + done * s_.rows, b.in<float>(0), nullptr, b.out<float>(0) + done * s_.in, b.workspace,
               handle_of(stream));
  }

 private:
  VocabShape s_;
  std::int64_t first_;
  Tiles tiles_;
  std::unique_ptr<CudaProduct> whole_, rest_;
};

}  // namespace

Prepared vocab_delta_cuda(const OpCall& call) {
  const VocabShape s = vocab_shape(call);
  if (s.rows == 0 || s.in == 0 || s.classes.classes == 0) return Declined{"there is nothing to compute"};
  return std::make_unique<CudaDelta>(s);
}

Prepared vocab_weight_cuda(const OpCall& call) {
  VocabShape s = delta_shape(call.shape(0), call.shape(1));
  s.tf32 = is_tf32(call.attrs);
  const std::int64_t first = call.attrs.integer("first");
  const std::int64_t last = first + call.attrs.integer("count");
  const bool is_whole = first % s.tile() == 0 && (last % s.tile() == 0 || last == s.classes.classes);
  if (s.rows == 0 || s.in == 0 || !is_whole) return Declined{"takes whole tiles"};
  return std::make_unique<CudaVocabWeight>(s, first, last - first);
}

}  // namespace neap::ops
