// A layer's forward and backward pass over a whole sequence by a tape, on the kernels themselves.
#pragma once

#include <algorithm>
#include <vector>

#include "core/random.h"
#include "recurrent/chunk.h"
#include "recurrent/tape.h"

namespace neap {

struct SequenceCase {
  CellKind kind = CellKind::kLstm;
  std::int64_t steps = 13, batch = 3, input = 5, hidden = 37;
  bool reverse = false, has_lengths = false, has_state = false, has_bias = true;
  std::int64_t most = 0;
};

class TapedSequence {
 public:
  using Floats = std::vector<float>;

  explicit TapedSequence(const SequenceCase& c) : c_(c) {
    const ChunkShape s = shape({0, c.steps});
    const std::int64_t rows = s.weight_blocks() * c.hidden;
    x = random(c.steps * c.batch * c.input, 1);
    w_ih = random(rows * c.input, 2);
    w_hh = random(rows * c.hidden, 3);
    b_ih = random(rows, 4);
    b_hh = random(rows, 5);
    h0 = random(plane(), 6);
    c0 = random(plane(), 7);
    dy = random(c.steps * plane(), 8);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      lengths.push_back(static_cast<std::int32_t>((b * 5 + 2) % (c.steps + 1)));
    }
  }

  // Outputs, last states and all gradients, one behind the other. The tape is in the order of time.
  Floats run(const Tape& tape) {
    forward(tape);
    backward(tape);
    Floats out;
    for (const Floats* part : {&h_, &state_, &cell_, &dw_ih_, &dw_hh_, &db_ih_, &db_hh_, &dx_, &dh_, &dc_}) {
      out.insert(out.end(), part->begin(), part->end());
    }
    return out;
  }

  // Sum of y * dy, h_n * dh_n and c_n * dc_n: what backward differentiates.
  double loss(const Tape& tape) {
    forward(tape);
    double sum = 0;
    const auto add = [&sum](const Floats& values, const Floats& weights) {
      for (std::size_t i = 0; i < weights.size(); ++i) sum += static_cast<double>(values[i]) * weights[i];
    };
    add(h_, dy);
    add(state_, dh_n);
    add(cell_, dc_n);
    return sum;
  }
  const Floats& y() const { return h_; }
  const Floats& h_n() const { return state_; }
  const Floats& c_n() const { return cell_; }
  const Floats& dw_ih() const { return dw_ih_; }
  const Floats& dw_hh() const { return dw_hh_; }
  const Floats& db_ih() const { return db_ih_; }
  const Floats& db_hh() const { return db_hh_; }
  const Floats& dx() const { return dx_; }
  const Floats& dh0() const { return dh_; }
  const Floats& dc0() const { return dc_; }

  Floats x, w_ih, w_hh, b_ih, b_hh, h0, c0, dy;
  Floats dh_n, dc_n;  // empty: the last states are not used
  std::vector<std::int32_t> lengths;

  void forward(const Tape& tape);
  void backward(const Tape& tape);  // wants forward before it

 private:
  static Floats random(std::int64_t n, std::uint64_t key) {
    Floats out(static_cast<std::size_t>(n));
    RandomStream stream(key);
    for (float& v : out) v = static_cast<float>(stream.uniform() - 0.5);
    return out;
  }
  std::int64_t plane() const { return c_.batch * c_.hidden; }
  ChunkShape shape(const TapeEntry& e) const {
    return {.kind = c_.kind,
            .steps = e.length,
            .batch = c_.batch,
            .input = c_.input,
            .hidden = c_.hidden,
            .reverse = c_.reverse,
            .is_masked = c_.has_lengths,
            .start = e.start,
            .most = c_.most,
            .keeps_gates = e.keeps_gates};
  }
  static float* at(Floats& v, std::int64_t i) { return v.data() + i; }
  // Chunks in the order of computation.
  std::vector<std::size_t> order(const Tape& tape) const {
    std::vector<std::size_t> out(tape.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = c_.reverse ? out.size() - 1 - i : i;
    return out;
  }

  SequenceCase c_;
  Floats h_, cells_, gates_, state_, cell_;
  std::vector<std::pair<Floats, Floats>> before_;  // the states that each chunk began with
  Floats dw_ih_, dw_hh_, db_ih_, db_hh_, dx_, dh_, dc_;
};

inline void TapedSequence::forward(const Tape& tape) {
  const auto n = static_cast<std::size_t>(plane());
  h_.assign(static_cast<std::size_t>(c_.steps) * n, 0);
  cells_ = h_;
  gates_.assign(4 * h_.size(), -7);
  before_.assign(tape.size(), {});
  state_ = c_.has_state ? h0 : Floats{};
  cell_ = c_.has_state ? c0 : Floats{};
  for (const std::size_t k : order(tape)) {
    const TapeEntry& e = tape[k];
    const ChunkShape s = shape(e);
    before_[k] = {state_, cell_};
    Floats h_last(n);
    Floats c_last(n);
    const ChunkForward b = {.x = at(x, e.start * c_.batch * c_.input),
                            .w_ih = w_ih.data(),
                            .w_hh = w_hh.data(),
                            .b_ih = c_.has_bias ? b_ih.data() : nullptr,
                            .b_hh = c_.has_bias ? b_hh.data() : nullptr,
                            .lengths = c_.has_lengths ? lengths.data() : nullptr,
                            .h0 = state_.empty() ? nullptr : state_.data(),
                            .c0 = cell_.empty() ? nullptr : cell_.data(),
                            .h = at(h_, e.start * plane()),
                            .h_last = h_last.data(),
                            .gates = e.keeps_gates ? at(gates_, e.start * plane() * 4) : nullptr,
                            .c = at(cells_, e.start * plane()),
                            .c_last = c_.kind == CellKind::kLstm ? c_last.data() : nullptr};
    std::vector<std::byte> workspace(static_cast<std::size_t>(forward_workspace(s)));
    run_forward(s, b, workspace.data(), e.gear);
    state_ = h_last;
    if (c_.kind == CellKind::kLstm) cell_ = c_last;
  }
}

inline void TapedSequence::backward(const Tape& tape) {
  const auto n = static_cast<std::size_t>(plane());
  dw_ih_.assign(w_ih.size(), 0);
  dw_hh_.assign(w_hh.size(), 0);
  db_ih_.assign(b_ih.size(), 0);
  db_hh_.assign(b_hh.size(), 0);
  dx_.assign(x.size(), 0);
  dh_ = dh_n.empty() ? Floats(n) : dh_n;
  dc_ = dc_n.empty() ? Floats(n) : dc_n;
  std::vector<std::size_t> chunks = order(tape);
  std::reverse(chunks.begin(), chunks.end());
  bool is_first = true;
  for (const std::size_t k : chunks) {
    const TapeEntry& e = tape[k];
    const ChunkShape s = shape(e);
    auto& [state, cell] = before_[k];
    ChunkBackward b = {.dh = at(dy, e.start * plane()),
                       .dh_last = is_first && dh_n.empty() ? nullptr : dh_.data(),
                       .dc_last = is_first && dc_n.empty() ? nullptr : dc_.data(),
                       .x = at(x, e.start * c_.batch * c_.input),
                       .w_ih = w_ih.data(),
                       .w_hh = w_hh.data(),
                       .b_ih = c_.has_bias ? b_ih.data() : nullptr,
                       .b_hh = c_.has_bias ? b_hh.data() : nullptr,
                       .lengths = c_.has_lengths ? lengths.data() : nullptr,
                       .h0 = state.empty() ? nullptr : state.data(),
                       .c0 = cell.empty() ? nullptr : cell.data(),
                       .h = at(h_, e.start * plane()),
                       .c = at(cells_, e.start * plane()),
                       .gates = e.keeps_gates ? at(gates_, e.start * plane() * 4) : nullptr,
                       .dw_ih = dw_ih_.data(),
                       .dw_hh = dw_hh_.data(),
                       .db_ih = db_ih_.data(),
                       .db_hh = db_hh_.data(),
                       .dx = at(dx_, e.start * c_.batch * c_.input),
                       .dh0 = dh_.data(),
                       .dc0 = c_.kind == CellKind::kLstm ? dc_.data() : nullptr};
    if (!is_first) {
      b.dw_ih_in = b.dw_ih;
      b.dw_hh_in = b.dw_hh;
      b.db_ih_in = b.db_ih;
      b.db_hh_in = b.db_hh;
    }
    std::vector<std::byte> workspace(static_cast<std::size_t>(backward_workspace(s)));
    run_backward(s, b, workspace.data(), e.gear);
    is_first = false;
  }
}

}  // namespace neap
