#include "recurrent/cell_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Loads and stores of a whole vector or of its first n lanes; a null source reads as zeros.
struct Whole {
  NEAP_VM vf load(const float* p) const { return vload(p); }
  NEAP_VM void store(float* p, vf v) const { vstore(p, v); }
};
struct Some {
  std::int64_t n;
  NEAP_VM vf load(const float* p) const { return vload_n(p, n); }
  NEAP_VM void store(float* p, vf v) const { vstore_n(p, v, n); }
};

template <class Lanes>
NEAP_VM vf load_or_zero(Lanes lanes, const float* p, std::int64_t i) {
  return p == nullptr ? vf{} : lanes.load(p + i);
}

NEAP_VM bool has_ended(const CellMask& mask, std::int64_t row) {
  return mask.lengths != nullptr && mask.time >= mask.lengths[row];
}

// body(lanes, row, unit) for every vector of the block's rows that have not ended, ended(...) for the others.
template <class Body, class Ended>
NEAP_VM void for_vectors(const CellBlock& b, const CellMask& mask, Body body, Ended ended) {
  for (std::int64_t row = b.row; row < b.row_end; ++row) {
    const bool is_over = has_ended(mask, row);
    std::int64_t u = b.unit;
    if (is_over) {
      for (; u + kLanes <= b.unit_end; u += kLanes) ended(Whole{}, row, u);
      if (u < b.unit_end) ended(Some{b.unit_end - u}, row, u);
    } else {
      for (; u + kLanes <= b.unit_end; u += kLanes) body(Whole{}, row, u);
      if (u < b.unit_end) body(Some{b.unit_end - u}, row, u);
    }
  }
}

template <class Lanes>
NEAP_VM vf biases(Lanes lanes, const CellForward& s, std::int64_t column) {
  return load_or_zero(lanes, s.b_ih, column) + load_or_zero(lanes, s.b_hh, column);
}

// The state goes on, the output is zero, the gates hold nothing.
template <int kBlocks>
NEAP_VM auto pass_state(const CellForward& s) {
  return [&s](auto lanes, std::int64_t row, std::int64_t u) {
    const std::int64_t at = row * s.block.hidden + u;
    lanes.store(s.h + at, vf{});
    lanes.store(s.state + at, load_or_zero(lanes, s.h_prev, at));
    if (s.c != nullptr) lanes.store(s.c + at, load_or_zero(lanes, s.c_prev, at));
    for (int g = 0; g < kBlocks; ++g) lanes.store(s.gates + (row * kBlocks + g) * s.block.hidden + u, vf{});
  };
}

// dh and dc stay what they are.
template <int kBlocks>
NEAP_VM auto pass_gradient(const CellBackward& s) {
  return [&s](auto lanes, std::int64_t row, std::int64_t u) {
    for (int g = 0; g < kBlocks; ++g) lanes.store(s.dgates + (row * kBlocks + g) * s.block.hidden + u, vf{});
  };
}

struct LstmGates {
  vf i, f, g, o;
};

// From sums to gates, in place.
template <class Lanes>
NEAP_VM LstmGates activate_lstm(Lanes lanes, const CellForward& s, std::int64_t row, std::int64_t u) {
  const std::int64_t hidden = s.block.hidden;
  float* gate = s.gates + row * 4 * hidden + u;
  const LstmGates y = {vsigmoid(lanes.load(gate) + biases(lanes, s, u)),
                       vsigmoid(lanes.load(gate + hidden) + biases(lanes, s, hidden + u)),
                       vtanh(lanes.load(gate + 2 * hidden) + biases(lanes, s, 2 * hidden + u)),
                       vsigmoid(lanes.load(gate + 3 * hidden) + biases(lanes, s, 3 * hidden + u))};
  lanes.store(gate, y.i);
  lanes.store(gate + hidden, y.f);
  lanes.store(gate + 2 * hidden, y.g);
  lanes.store(gate + 3 * hidden, y.o);
  return y;
}

void lstm_gates(const CellForward& s) {
  const auto activate = [&](auto lanes, std::int64_t row, std::int64_t u) { activate_lstm(lanes, s, row, u); };
  for_vectors(s.block, s.mask, activate, activate);
}

void lstm_forward(const CellForward& s) {
  const std::int64_t hidden = s.block.hidden;
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const std::int64_t at = row * hidden + u;
    const LstmGates y = activate_lstm(lanes, s, row, u);
    const vf c = vfma(y.f, load_or_zero(lanes, s.c_prev, at), y.i * y.g);
    const vf h = y.o * vtanh(c);
    lanes.store(s.c + at, c);
    lanes.store(s.h + at, h);
    if (s.state != nullptr) lanes.store(s.state + at, h);
  };
  for_vectors(s.block, s.mask, step, pass_state<4>(s));
}

void lstm_backward(const CellBackward& s) {
  const std::int64_t hidden = s.block.hidden;
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const float* gate = s.gates + row * 4 * hidden + u;
    const std::int64_t at = row * hidden + u;
    const vf i = lanes.load(gate);
    const vf f = lanes.load(gate + hidden);
    const vf g = lanes.load(gate + 2 * hidden);
    const vf o = lanes.load(gate + 3 * hidden);
    const vf dh = lanes.load(s.dh + at) + load_or_zero(lanes, s.dh_out, at);
    const vf y = vtanh(lanes.load(s.c + at));
    const vf dc = vfma(dh * o, 1.0F - y * y, lanes.load(s.dc + at));
    float* dgate = s.dgates + row * 4 * hidden + u;
    lanes.store(dgate, dc * g * i * (1.0F - i));
    lanes.store(dgate + hidden, dc * load_or_zero(lanes, s.c_prev, at) * f * (1.0F - f));
    lanes.store(dgate + 2 * hidden, dc * i * (1.0F - g * g));
    lanes.store(dgate + 3 * hidden, dh * y * o * (1.0F - o));
    lanes.store(s.dc + at, dc * f);
    lanes.store(s.dh + at, vf{});
  };
  for_vectors(s.block, s.mask, step, pass_gradient<4>(s));
}

struct GruGates {
  vf z, n;
};

// n = tanh(n_x + r * n_h). From sums to gates, in place.
template <class Lanes>
NEAP_VM GruGates activate_gru(Lanes lanes, const CellForward& s, std::int64_t row, std::int64_t u) {
  const std::int64_t hidden = s.block.hidden;
  float* gate = s.gates + row * 4 * hidden + u;
  const vf r = vsigmoid(lanes.load(gate) + biases(lanes, s, u));
  const vf z = vsigmoid(lanes.load(gate + hidden) + biases(lanes, s, hidden + u));
  const vf by_state = lanes.load(gate + 3 * hidden) + load_or_zero(lanes, s.b_hh, 2 * hidden + u);
  const vf by_input = lanes.load(gate + 2 * hidden) + load_or_zero(lanes, s.b_ih, 2 * hidden + u);
  const vf n = vtanh(vfma(r, by_state, by_input));
  lanes.store(gate, r);
  lanes.store(gate + hidden, z);
  lanes.store(gate + 2 * hidden, n);
  lanes.store(gate + 3 * hidden, by_state);
  return {z, n};
}

void gru_gates(const CellForward& s) {
  const auto activate = [&](auto lanes, std::int64_t row, std::int64_t u) { activate_gru(lanes, s, row, u); };
  for_vectors(s.block, s.mask, activate, activate);
}

// h = n + z * (h_prev - n).
void gru_forward(const CellForward& s) {
  const std::int64_t hidden = s.block.hidden;
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const std::int64_t at = row * hidden + u;
    const GruGates y = activate_gru(lanes, s, row, u);
    const vf h = vfma(y.z, load_or_zero(lanes, s.h_prev, at) - y.n, y.n);
    lanes.store(s.h + at, h);
    if (s.state != nullptr) lanes.store(s.state + at, h);
  };
  for_vectors(s.block, s.mask, step, pass_state<4>(s));
}

void gru_backward(const CellBackward& s) {
  const std::int64_t hidden = s.block.hidden;
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const float* gate = s.gates + row * 4 * hidden + u;
    const std::int64_t at = row * hidden + u;
    const vf r = lanes.load(gate);
    const vf z = lanes.load(gate + hidden);
    const vf n = lanes.load(gate + 2 * hidden);
    const vf by_state = lanes.load(gate + 3 * hidden);
    const vf dh = lanes.load(s.dh + at) + load_or_zero(lanes, s.dh_out, at);
    const vf dn = dh * (1.0F - z) * (1.0F - n * n);
    const vf dz = dh * (load_or_zero(lanes, s.h_prev, at) - n);
    float* dgate = s.dgates + row * 4 * hidden + u;
    lanes.store(dgate, dn);
    lanes.store(dgate + hidden, dn * by_state * r * (1.0F - r));
    lanes.store(dgate + 2 * hidden, dz * z * (1.0F - z));
    lanes.store(dgate + 3 * hidden, dn * r);
    lanes.store(s.dh + at, dh * z);
  };
  for_vectors(s.block, s.mask, step, pass_gradient<4>(s));
}

template <class Activation>
NEAP_VM void plain_forward(const CellForward& s, Activation activation) {
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const std::int64_t at = row * s.block.hidden + u;
    const vf h = activation(lanes.load(s.h + at) + biases(lanes, s, u));
    lanes.store(s.h + at, h);
    if (s.state != nullptr) lanes.store(s.state + at, h);
  };
  for_vectors(s.block, s.mask, step, pass_state<0>(s));
}

template <class Slope>
NEAP_VM void plain_backward(const CellBackward& s, Slope slope) {
  const auto step = [&](auto lanes, std::int64_t row, std::int64_t u) {
    const std::int64_t at = row * s.block.hidden + u;
    const vf dh = lanes.load(s.dh + at) + load_or_zero(lanes, s.dh_out, at);
    lanes.store(s.dgates + at, dh * slope(lanes.load(s.h + at)));
    lanes.store(s.dh + at, vf{});
  };
  for_vectors(s.block, s.mask, step, pass_gradient<1>(s));
}

void tanh_forward(const CellForward& s) {
  plain_forward(s, [](vf x) { return vtanh(x); });
}
void tanh_backward(const CellBackward& s) {
  plain_backward(s, [](vf y) { return 1.0F - y * y; });
}
void relu_forward(const CellForward& s) {
  plain_forward(s, [](vf x) { return x < 0.0F ? vf{} : x; });
}
void relu_backward(const CellBackward& s) {
  plain_backward(s, [](vf y) { return y > 0.0F ? vset(1.0F) : vf{}; });
}

void sum_rows(const float* src, std::int64_t ld, std::int64_t first, std::int64_t step, std::int64_t rows,
              std::int64_t columns, float* sum, float* also) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = src + (first + r * step) * ld;
    if (sum != nullptr) {
      for (std::int64_t j = 0; j < columns; ++j) sum[j] += row[j];
    }
    if (also != nullptr) {
      for (std::int64_t j = 0; j < columns; ++j) also[j] += row[j];
    }
  }
}

}  // namespace

const CellTable& cell_table() {
  static constexpr CellTable kTable = {lstm_forward, lstm_backward, lstm_gates,   gru_forward,
                                       gru_backward, gru_gates,     tanh_forward, tanh_backward,
                                       relu_forward, relu_backward, sum_rows};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
