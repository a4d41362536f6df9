// Gates that were not kept, made again for backward: all states are known, so it is a product over all steps, and not
// one a step.
#pragma once

#include <algorithm>
#include <optional>

#include "ops/matmul/product_cuda.h"
#include "ops/rnn/chunk_cell.cuh"

namespace neap::ops {

// What a chunk's products are of.
struct ChunkFactors {
  DType type = DType::kF32;  // of x and the weights, and of what is rounded to meet them
  bool tf32 = false;
};

// x w^T for `rows` rows of k numbers.
inline CudaProduct by_weight(const ChunkFactors& of, std::int64_t rows, std::int64_t k, std::int64_t columns,
                             bool adds) {
  return CudaProduct({.m = rows,
                      .n = columns,
                      .k = k,
                      .a = dense_matrix(rows, k, false),
                      .b = dense_matrix(k, columns, true),
                      .adds = adds,
                      .in = of.type,
                      .tf32 = of.tf32});
}

// Sums become gates, in place (LSTM) or from two arrays (GRU). Formulas of lstm_unit and gru_unit.
struct RegateUnits {
  CellKind kind;
  std::int64_t hidden;
  const float *b_ih, *b_hh, *by_input, *by_state;
  float* gates;

  __device__ void lstm(std::int64_t row, std::int64_t unit) const {
    for (int g = 0; g < 4; ++g) {
      const std::int64_t k = g * hidden + unit;
      const std::int64_t at = row * 4 * hidden + k;
      const float sum = by_input[at] + (at_or_zero(b_ih, k) + at_or_zero(b_hh, k));
      gates[at] = g == 2 ? tanhf(sum) : cell_sigmoid(sum);
    }
  }
  __device__ void gru(std::int64_t row, std::int64_t unit) const {
    float input[3];
    float state[3];
    for (int g = 0; g < 3; ++g) {
      const std::int64_t k = g * hidden + unit;
      input[g] = by_input[row * 3 * hidden + k] + at_or_zero(b_ih, k);
      state[g] = by_state[row * 3 * hidden + k] + at_or_zero(b_hh, k);
    }
    const float r = cell_sigmoid(input[0] + state[0]);
    const float z = cell_sigmoid(input[1] + state[1]);
    float* to = gates + row * 4 * hidden + unit;
    to[0] = r;
    to[hidden] = z;
    to[2 * hidden] = tanhf(fmaf(r, state[2], input[2]));
    to[3 * hidden] = state[2];
  }
};

class ChunkRegate {
 public:
  ChunkRegate(const ChunkShape& s, const ChunkFactors& of)
      : s_(s),
        columns_(s.weight_blocks() * s.hidden),
        input_(by_weight(of, s.rows(), s.input, columns_, false)),
        first_(by_weight(of, s.batch, s.hidden, columns_, !is_gru())) {
    const std::int64_t others = s.is_masked ? s.rows() : s.rows() - s.batch;
    if (others > 0) others_.emplace(by_weight(of, others, s.hidden, columns_, !is_gru()));
  }
  std::int64_t product_bytes() const {
    const std::int64_t two = std::max(input_.workspace_bytes(), first_.workspace_bytes());
    return others_ ? std::max(two, others_->workspace_bytes()) : two;
  }
  std::int64_t gate_bytes() const { return s_.rows() * 4 * s_.hidden * static_cast<std::int64_t>(sizeof(float)); }
  // Sums that are not gates yet, where they do not lie in the gates' place.
  std::int64_t sum_bytes() const {
    return is_gru() ? 2 * s_.rows() * columns_ * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  std::string numerics() const { return input_.numerics() + first_.numerics() + (others_ ? others_->numerics() : ""); }

  // h [steps, batch, hidden] and h0, which may be null, are of the products' type T. With lengths h is the state before
  // each step.
  template <class T>
  void run(const ChunkBackward& b, const T* h, const T* h0, float* gates, float* sums, std::byte* scratch,
           cudaStream_t stream) const {
    float* by_input = is_gru() ? sums : gates;
    float* by_state = is_gru() ? sums + s_.rows() * columns_ : gates;
    input_.run(b.x, b.w_ih, nullptr, by_input, scratch, stream);
    if (s_.is_masked) {
      others_->run(h, b.w_hh, nullptr, by_state, scratch, stream);
    } else {
      multiply_states(b, h, h0, by_state, scratch, stream);
    }
    const RegateUnits units{s_.kind, s_.hidden, b.b_ih, b.b_hh, by_input, by_state, gates};
    each_unit("regate", s_.rows(), s_.hidden, stream, [=] __device__(std::int64_t row, std::int64_t unit) {
      units.kind == CellKind::kGru ? units.gru(row, unit) : units.lstm(row, unit);
    });
  }

 private:
  // Each step has read what the one before it has put out, the first one h0.
  template <class T>
  void multiply_states(const ChunkBackward& b, const T* h, const T* h0, float* by_state, std::byte* scratch,
                       cudaStream_t stream) const {
    const std::int64_t here = s_.batch * columns_;
    const std::int64_t plane = s_.batch * s_.hidden;
    if (others_) {
      others_->run(h + (s_.reverse ? plane : 0), b.w_hh, nullptr, by_state + (s_.reverse ? 0 : here), scratch, stream);
    }
    float* at_first = by_state + s_.time(0) * here;
    if (h0 != nullptr) {
      first_.run(h0, b.w_hh, nullptr, at_first, scratch, stream);
    } else if (is_gru()) {
      NEAP_CHECK_CUDA(cudaMemsetAsync(at_first, 0, static_cast<std::size_t>(here) * sizeof(float), stream));
    }
  }

  bool is_gru() const { return s_.kind == CellKind::kGru; }

  ChunkShape s_;
  std::int64_t columns_;
  CudaProduct input_, first_;
  std::optional<CudaProduct> others_;
};

}  // namespace neap::ops
