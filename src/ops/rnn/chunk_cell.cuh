// The nonlinear part of a step of a recurrent cell on CUDA, a thread a unit of a row: formulas of
// recurrent/chunk_ref.cc.
#pragma once

#include "device/cuda/floats.cuh"
#include "device/cuda/launch.cuh"
#include "recurrent/chunk.h"

namespace neap::ops {

__device__ inline float cell_sigmoid(float x) { return 1 / (1 + expf(-x)); }
__device__ inline float at_or_zero(const float* data, std::int64_t i) { return data == nullptr ? 0 : data[i]; }

// Rows whose sequence has ended output 0 and keep their state.
struct StepMask {
  const std::int32_t* lengths = nullptr;  // null: no row ever ends
  std::int64_t time = 0;                  // of the step, in the sequence

  __device__ bool has_ended(std::int64_t row) const { return lengths != nullptr && time >= lengths[row]; }
};

// Arrays of one step: [batch, hidden], sums and gates [batch, blocks * hidden]. What may be missing is null.
struct CellStep {
  CellKind kind;
  std::int64_t batch, hidden;
  const float *b_ih, *b_hh;
  const float* by_input;  // products without biases; for LSTM and plain cells the state's are in it already
  const float* by_state;  // GRU
  const float *h_prev, *c_prev;
  float *gates, *h, *c;  // gates and c may take the place of by_input and c_prev
  Bf16* h_narrow;        // the state once more, for the next product; may be null
  StepMask mask;
  float* state;  // with lengths: what the next step reads, in the place of h_prev or not; else null

  __device__ void keep(std::int64_t e, float h) const {
    if (state != nullptr) state[e] = h;
    if (h_narrow != nullptr) h_narrow[e] = narrow<Bf16>(h);
  }
};

// The state goes on, the output is zero, the gates hold nothing.
__device__ inline void pass_unit(const CellStep& s, std::int64_t row, std::int64_t unit) {
  const std::int64_t e = row * s.hidden + unit;
  s.keep(e, at_or_zero(s.h_prev, e));
  s.h[e] = 0;
  if (s.kind == CellKind::kLstm) s.c[e] = at_or_zero(s.c_prev, e);
  const bool has_gates = s.gates != nullptr && (s.kind == CellKind::kLstm || s.kind == CellKind::kGru);
  for (int g = 0; has_gates && g < 4; ++g) s.gates[(row * 4 + g) * s.hidden + unit] = 0;
}

__device__ inline void lstm_unit(const CellStep& s, std::int64_t row, std::int64_t unit) {
  float sum[4];
  const std::int64_t first = row * 4 * s.hidden + unit;
  for (int g = 0; g < 4; ++g) {
    const std::int64_t k = g * s.hidden + unit;
    sum[g] = s.by_input[first + g * s.hidden] + (at_or_zero(s.b_ih, k) + at_or_zero(s.b_hh, k));
  }
  const std::int64_t e = row * s.hidden + unit;
  const float i = cell_sigmoid(sum[0]);
  const float f = cell_sigmoid(sum[1]);
  const float g = tanhf(sum[2]);
  const float o = cell_sigmoid(sum[3]);
  const float c = fmaf(f, at_or_zero(s.c_prev, e), i * g);
  s.gates[first] = i;
  s.gates[first + s.hidden] = f;
  s.gates[first + 2 * s.hidden] = g;
  s.gates[first + 3 * s.hidden] = o;
  s.c[e] = c;
  const float h = o * tanhf(c);
  s.h[e] = h;
  s.keep(e, h);
}

__device__ inline void gru_unit(const CellStep& s, std::int64_t row, std::int64_t unit) {
  float input[3];
  float state[3];
  for (int g = 0; g < 3; ++g) {
    const std::int64_t k = g * s.hidden + unit;
    input[g] = s.by_input[row * 3 * s.hidden + k] + at_or_zero(s.b_ih, k);
    state[g] = at_or_zero(s.by_state, row * 3 * s.hidden + k) + at_or_zero(s.b_hh, k);
  }
  const std::int64_t e = row * s.hidden + unit;
  const float r = cell_sigmoid(input[0] + state[0]);
  const float z = cell_sigmoid(input[1] + state[1]);
  const float n = tanhf(fmaf(r, state[2], input[2]));
  const float h = fmaf(1 - z, n, z * at_or_zero(s.h_prev, e));
  s.h[e] = h;
  s.keep(e, h);
  if (s.gates == nullptr) return;
  const std::int64_t first = row * 4 * s.hidden + unit;
  s.gates[first] = r;
  s.gates[first + s.hidden] = z;
  s.gates[first + 2 * s.hidden] = n;
  s.gates[first + 3 * s.hidden] = state[2];
}

// A thread a unit; blocks have one row each, so that nobody divides.
inline constexpr int kCellThreads = 128;

template <class F>
__global__ void __launch_bounds__(kCellThreads) units_kernel(std::int64_t rows, std::int64_t units, F f) {
  const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kCellThreads + threadIdx.x;
  if (unit >= units) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) f(row, unit);
}

template <class F>
void each_unit(const char* name, std::int64_t rows, std::int64_t units, cudaStream_t stream, F f) {
  if (rows * units == 0) return;
  const dim3 grid(static_cast<unsigned>((units + kCellThreads - 1) / kCellThreads),
                  static_cast<unsigned>(rows < 65535 ? rows : 65535));
  units_kernel<<<grid, kCellThreads, 0, stream>>>(rows, units, f);
  check_launch(name);
}

inline void run_cell(const CellStep& s, cudaStream_t stream) {
  each_unit("recurrent_cell", s.batch, s.hidden, stream, [=] __device__(std::int64_t row, std::int64_t unit) {
    if (s.mask.has_ended(row)) return pass_unit(s, row, unit);
    if (s.kind == CellKind::kLstm) return lstm_unit(s, row, unit);
    if (s.kind == CellKind::kGru) return gru_unit(s, row, unit);
    const std::int64_t e = row * s.hidden + unit;
    const float sum = s.by_input[e] + (at_or_zero(s.b_ih, unit) + at_or_zero(s.b_hh, unit));
    const float h = s.kind == CellKind::kTanh ? tanhf(sum) : fmaxf(sum, 0);
    s.h[e] = h;
    s.keep(e, h);
  });
}

struct CellSlope {
  CellKind kind;
  std::int64_t batch, hidden;
  const float* dh_out;
  const float* by_weights;  // what came to dh from the step behind by the weights; null at the last step
  const float *gates, *h, *c, *h_prev, *c_prev;
  float *dh, *dc;               // in: from the step behind; out: what reaches the step before other than by the weights
  float *by_input, *by_state;   // gradients of the sums, [batch, blocks * hidden]; the same array but for the GRU
  Bf16 *narrow, *narrow_state;  // they go here instead (LSTM: all to the first); null: they do not
  StepMask mask;
};

// dc stays what it is, and so does dh; the sums have no gradient.
__device__ inline void pass_slope(const CellSlope& s, std::int64_t row, std::int64_t unit) {
  const std::int64_t e = row * s.hidden + unit;
  s.dh[e] += at_or_zero(s.by_weights, e);
  const int blocks = s.kind == CellKind::kLstm ? 4 : s.kind == CellKind::kGru ? 3 : 1;
  for (int k = 0; k < blocks; ++k) {
    const std::int64_t to = (row * blocks + k) * s.hidden + unit;
    if (s.narrow != nullptr) {
      s.narrow[to] = narrow<Bf16>(0);
      s.narrow_state[to] = narrow<Bf16>(0);
    } else {
      s.by_input[to] = 0;
      s.by_state[to] = 0;
    }
  }
}

__device__ inline void lstm_slope(const CellSlope& s, std::int64_t row, std::int64_t unit, float dh) {
  const std::int64_t e = row * s.hidden + unit;
  const std::int64_t first = row * 4 * s.hidden + unit;
  const float i = s.gates[first];
  const float f = s.gates[first + s.hidden];
  const float g = s.gates[first + 2 * s.hidden];
  const float o = s.gates[first + 3 * s.hidden];
  const float t = tanhf(s.c[e]);
  const float d = s.dc[e] + dh * o * (1 - t * t);
  const float slopes[4] = {d * g * i * (1 - i), d * at_or_zero(s.c_prev, e) * f * (1 - f), d * i * (1 - g * g),
                           dh * t * o * (1 - o)};
  for (int k = 0; k < 4; ++k) {
    if (s.narrow != nullptr) {
      s.narrow[first + k * s.hidden] = narrow<Bf16>(slopes[k]);
    } else {
      s.by_input[first + k * s.hidden] = slopes[k];
    }
  }
  s.dc[e] = d * f;
  s.dh[e] = 0;
}

__device__ inline void gru_slope(const CellSlope& s, std::int64_t row, std::int64_t unit, float dh) {
  const std::int64_t e = row * s.hidden + unit;
  const std::int64_t first = row * 4 * s.hidden + unit;
  const float r = s.gates[first];
  const float z = s.gates[first + s.hidden];
  const float n = s.gates[first + 2 * s.hidden];
  const float state = s.gates[first + 3 * s.hidden];
  const float dn = dh * (1 - z) * (1 - n * n);
  const float dr = dn * state * r * (1 - r);
  const float dz = dh * (at_or_zero(s.h_prev, e) - n) * z * (1 - z);
  const std::int64_t at = row * 3 * s.hidden + unit;
  const float slopes[4] = {dr, dz, dn, dn * r};  // of the last two one is the input's, one the state's
  for (int k = 0; k < 3; ++k) {
    const std::int64_t to = at + k * s.hidden;
    const float by_state = slopes[k == 2 ? 3 : k];
    if (s.narrow != nullptr) {
      s.narrow[to] = narrow<Bf16>(slopes[k]);
      s.narrow_state[to] = narrow<Bf16>(by_state);
    } else {
      s.by_input[to] = slopes[k];
      s.by_state[to] = by_state;
    }
  }
  s.dh[e] = dh * z;
}

inline void run_cell_slope(const CellSlope& s, cudaStream_t stream) {
  each_unit("recurrent_cell_grad", s.batch, s.hidden, stream, [=] __device__(std::int64_t row, std::int64_t unit) {
    if (s.mask.has_ended(row)) return pass_slope(s, row, unit);
    const std::int64_t e = row * s.hidden + unit;
    const float dh = s.dh[e] + at_or_zero(s.by_weights, e) + at_or_zero(s.dh_out, e);
    if (s.kind == CellKind::kLstm) return lstm_slope(s, row, unit, dh);
    if (s.kind == CellKind::kGru) return gru_slope(s, row, unit, dh);
    s.by_input[e] = s.kind == CellKind::kTanh ? dh * (1 - s.h[e] * s.h[e]) : (s.h[e] > 0 ? dh : 0);
    s.dh[e] = 0;
  });
}

// The state before each step of a chunk with lengths, where the step stands: rows that have ended, or not begun yet (in
// reverse), have what they had. A thread a unit of a row.
struct StatesBefore {
  std::int64_t steps, batch, hidden, start;
  bool reverse;
  const std::int32_t* lengths;
  const float *h0, *h;
  float* to;

  __device__ void operator()(std::int64_t e) const {
    float state = at_or_zero(h0, e);
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = reverse ? steps - 1 - i : i;
      const std::int64_t at = t * batch * hidden + e;
      to[at] = state;
      if (start + t < lengths[e / hidden]) state = h[at];
    }
  }
};

}  // namespace neap::ops
