#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/bytes.h"
#include "recurrent/chunk.h"

namespace neap {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double at(const float* data, std::int64_t i) { return data == nullptr ? 0.0 : static_cast<double>(data[i]); }

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; a != nullptr && i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

bool has_ended(const ChunkShape& s, const std::int32_t* lengths, std::int64_t time, std::int64_t row) {
  return lengths != nullptr && s.start + time >= lengths[row];
}

// What one unit of one row does in one step.
struct Unit {
  double by_input[4];  // the sums of the gates, biases included
  double by_state[4];
  double h_prev, c_prev;
};

struct Result {
  double h, c;
  double gates[4];
};

Result activate(CellKind kind, const Unit& u) {
  const auto sum = [&](int g) { return u.by_input[g] + u.by_state[g]; };
  if (kind == CellKind::kTanh) return {.h = std::tanh(sum(0))};
  if (kind == CellKind::kRelu) return {.h = std::max(sum(0), 0.0)};
  if (kind == CellKind::kGru) {
    const double r = sigmoid(sum(0));
    const double z = sigmoid(sum(1));
    const double n = std::tanh(u.by_input[2] + r * u.by_state[2]);
    return {.h = (1 - z) * n + z * u.h_prev, .gates = {r, z, n, u.by_state[2]}};
  }
  const double i = sigmoid(sum(0));
  const double f = sigmoid(sum(1));
  const double g = std::tanh(sum(2));
  const double o = sigmoid(sum(3));
  const double c = f * u.c_prev + i * g;
  return {.h = o * std::tanh(c), .c = c, .gates = {i, f, g, o}};
}

// Gradients of the sums; for the GRU's n, that by the input is in [2] and that by the state in [3].
struct Slopes {
  double sums[4];
  double dh_prev, dc_prev;  // other than by the weights
};

Slopes differentiate(CellKind kind, const double (&y)[4], double h, double c, double h_prev, double c_prev, double dh,
                     double dc) {
  if (kind == CellKind::kTanh) return {.sums = {dh * (1 - h * h)}};
  if (kind == CellKind::kRelu) return {.sums = {h > 0 ? dh : 0}};
  if (kind == CellKind::kGru) {
    const auto [r, z, n, by_state] = y;
    const double dn = dh * (1 - z) * (1 - n * n);
    return {.sums = {dn * by_state * r * (1 - r), dh * (h_prev - n) * z * (1 - z), dn, dn * r}, .dh_prev = dh * z};
  }
  const auto [i, f, g, o] = y;
  const double t = std::tanh(c);
  const double d = dc + dh * o * (1 - t * t);
  return {.sums = {d * g * i * (1 - i), d * c_prev * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)},
          .dc_prev = d * f};
}

}  // namespace

// The states before and behind a step.
std::int64_t forward_workspace_ref(const ChunkShape& s) {
  return 4 * s.batch * s.hidden * static_cast<std::int64_t>(sizeof(float));
}

void run_forward_ref(const ChunkShape& s, const ChunkForward& b, std::byte* workspace) {
  const std::int64_t plane = s.batch * s.hidden;
  auto* state = reinterpret_cast<float*>(workspace);
  float* cell = state + plane;
  float* next_state = cell + plane;
  float* next_cell = next_state + plane;
  for (std::int64_t e = 0; e < plane; ++e) {
    state[e] = static_cast<float>(at(b.h0, e));
    cell[e] = static_cast<float>(at(b.c0, e));
  }
  for (std::int64_t step = 0; step < s.steps; ++step) {
    const std::int64_t t = s.time(step);
    for (std::int64_t e = 0; e < plane; ++e) {
      const std::int64_t row = e / s.hidden;
      const std::int64_t unit = e % s.hidden;
      Unit u{.h_prev = state[e], .c_prev = cell[e]};
      for (std::int64_t g = 0; g < s.weight_blocks(); ++g) {
        const std::int64_t k = g * s.hidden + unit;
        u.by_input[g] = dot(b.x + (t * s.batch + row) * s.input, b.w_ih + k * s.input, s.input) + at(b.b_ih, k);
        u.by_state[g] = dot(state + row * s.hidden, b.w_hh + k * s.hidden, s.hidden) + at(b.b_hh, k);
      }
      const bool is_over = has_ended(s, b.lengths, t, row);
      const Result r = is_over ? Result{} : activate(s.kind, u);
      next_state[e] = is_over ? state[e] : static_cast<float>(r.h);
      next_cell[e] = is_over ? cell[e] : static_cast<float>(r.c);
      b.h[t * plane + e] = static_cast<float>(r.h);
      if (b.c != nullptr) b.c[t * plane + e] = next_cell[e];
      for (std::int64_t g = 0; b.gates != nullptr && g < s.gate_blocks(); ++g) {
        b.gates[((t * s.batch + row) * 4 + g) * s.hidden + unit] = static_cast<float>(r.gates[g]);
      }
    }
    std::copy_n(next_state, plane, state);
    std::copy_n(next_cell, plane, cell);
  }
  if (b.h_last != nullptr) std::copy_n(state, plane, b.h_last);
  if (b.c_last != nullptr) std::copy_n(cell, plane, b.c_last);
}

namespace {

// Backward in double: gradients of the sums by input and by state for all steps, of the state for one.
class Reference {
 public:
  Reference(const ChunkShape& s, const ChunkBackward& b, std::byte* workspace)
      : s_(s), b_(b), plane_(s.batch * s.hidden), columns_(s.weight_blocks() * s.hidden) {
    by_input_ = reinterpret_cast<double*>(workspace);
    by_state_ = by_input_ + s.rows() * columns_;
    h_prev_ = by_state_ + s.rows() * columns_;
    dh_ = h_prev_ + s.rows() * s.hidden;
    dc_ = dh_ + plane_;
  }

  void run() {
    for (std::int64_t e = 0; e < plane_; ++e) {
      dh_[e] = at(b_.dh_last, e);
      dc_[e] = at(b_.dc_last, e);
    }
    gather_states();
    for (std::int64_t step = s_.steps - 1; step >= 0; --step) {
      differentiate_step(step);
      for (std::int64_t e = 0; e < plane_; ++e) dh_[e] += by_weights(s_.time(step), e / s_.hidden, e % s_.hidden);
    }
    for (std::int64_t e = 0; e < plane_; ++e) {
      if (b_.dh0 != nullptr) b_.dh0[e] = static_cast<float>(dh_[e]);
      if (b_.dc0 != nullptr) b_.dc0[e] = static_cast<float>(dc_[e]);
    }
    weights();
    for (std::int64_t e = 0; b_.dx != nullptr && e < s_.rows() * s_.input; ++e) input(e);
  }

 private:
  void gather_states() {
    for (std::int64_t e = 0; e < plane_; ++e) {
      double state = at(b_.h0, e);
      for (std::int64_t step = 0; step < s_.steps; ++step) {
        const std::int64_t t = s_.time(step);
        h_prev_[t * plane_ + e] = state;
        if (!has_ended(s_, b_.lengths, t, e / s_.hidden)) state = at(b_.h, t * plane_ + e);
      }
    }
  }

  void differentiate_step(std::int64_t step) {
    const std::int64_t t = s_.time(step);
    for (std::int64_t e = 0; e < plane_; ++e) {
      const std::int64_t row = t * s_.batch + e / s_.hidden;
      const std::int64_t unit = e % s_.hidden;
      const bool is_over = has_ended(s_, b_.lengths, t, e / s_.hidden);
      double y[4] = {};
      for (std::int64_t g = 0; b_.gates != nullptr && g < s_.gate_blocks(); ++g) {
        y[g] = b_.gates[(row * 4 + g) * s_.hidden + unit];
      }
      if (b_.gates == nullptr && s_.gate_blocks() > 0) make_gates(t, row, unit, y);
      const double c_prev = step == 0 ? at(b_.c0, e) : at(b_.c, s_.time(step - 1) * plane_ + e);
      const double dh = dh_[e] + (is_over ? 0 : at(b_.dh, t * plane_ + e));
      const Slopes d = is_over ? Slopes{.dh_prev = dh_[e], .dc_prev = dc_[e]}
                               : neap::differentiate(s_.kind, y, at(b_.h, t * plane_ + e), at(b_.c, t * plane_ + e),
                                                     h_prev_[t * plane_ + e], c_prev, dh, dc_[e]);
      for (std::int64_t g = 0; g < s_.weight_blocks(); ++g) {
        const bool is_apart = s_.kind == CellKind::kGru && g == 2;
        by_input_[row * columns_ + g * s_.hidden + unit] = d.sums[g];
        by_state_[row * columns_ + g * s_.hidden + unit] = d.sums[is_apart ? 3 : g];
      }
      dh_[e] = d.dh_prev;
      dc_[e] = d.dc_prev;
    }
  }

  void make_gates(std::int64_t t, std::int64_t row, std::int64_t unit, double (&y)[4]) const {
    Unit u{};
    for (std::int64_t g = 0; g < s_.weight_blocks(); ++g) {
      const std::int64_t k = g * s_.hidden + unit;
      u.by_input[g] = dot(b_.x + row * s_.input, b_.w_ih + k * s_.input, s_.input) + at(b_.b_ih, k);
      u.by_state[g] = at(b_.b_hh, k);
      for (std::int64_t j = 0; j < s_.hidden; ++j) {
        u.by_state[g] += h_prev_[t * plane_ + row % s_.batch * s_.hidden + j] * b_.w_hh[k * s_.hidden + j];
      }
    }
    std::copy_n(activate(s_.kind, u).gates, 4, y);
  }

  double by_weights(std::int64_t t, std::int64_t row, std::int64_t unit) const {
    double sum = 0;
    for (std::int64_t k = 0; k < columns_; ++k) {
      sum += by_state_[(t * s_.batch + row) * columns_ + k] * b_.w_hh[k * s_.hidden + unit];
    }
    return sum;
  }

  void weights() const {
    for (std::int64_t k = 0; k < columns_; ++k) {
      const auto sum = [&](const double* d, auto factor, const float* start, std::int64_t i, float* to) {
        if (to == nullptr) return;
        double total = at(start, i);
        for (std::int64_t r = 0; r < s_.rows(); ++r) total += d[r * columns_ + k] * factor(r);
        to[i] = static_cast<float>(total);
      };
      const auto one = [](std::int64_t) { return 1.0; };
      sum(by_input_, one, b_.db_ih_in, k, b_.db_ih);
      sum(by_state_, one, b_.db_hh_in, k, b_.db_hh);
      for (std::int64_t j = 0; b_.x != nullptr && j < s_.input; ++j) {
        const auto x = [&](std::int64_t r) { return static_cast<double>(b_.x[r * s_.input + j]); };
        sum(by_input_, x, b_.dw_ih_in, k * s_.input + j, b_.dw_ih);
      }
      for (std::int64_t j = 0; b_.h != nullptr && j < s_.hidden; ++j) {
        const auto h = [&](std::int64_t r) { return h_prev_[r * s_.hidden + j]; };
        sum(by_state_, h, b_.dw_hh_in, k * s_.hidden + j, b_.dw_hh);
      }
    }
  }

  void input(std::int64_t e) const {
    double sum = 0;
    for (std::int64_t k = 0; k < columns_; ++k) {
      sum += by_input_[e / s_.input * columns_ + k] * b_.w_ih[k * s_.input + e % s_.input];
    }
    b_.dx[e] = static_cast<float>(sum);
  }

  const ChunkShape& s_;
  const ChunkBackward& b_;
  std::int64_t plane_;
  std::int64_t columns_;
  double* by_input_;
  double* by_state_;
  double* h_prev_;
  double* dh_;
  double* dc_;
};

}  // namespace

std::int64_t backward_workspace_ref(const ChunkShape& s) {
  const std::int64_t doubles = s.rows() * s.hidden * (2 * s.weight_blocks() + 1) + 2 * s.batch * s.hidden;
  return doubles * static_cast<std::int64_t>(sizeof(double));
}

void run_backward_ref(const ChunkShape& shape, const ChunkBackward& b, std::byte* workspace) {
  Reference(shape, b, workspace).run();
}

}  // namespace neap
