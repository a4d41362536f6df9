#include "recurrent_times.h"

#include <algorithm>
#include <ctime>
#include <span>

#include "recurrent/chunk.h"

namespace neap::bench {
namespace {

// A layer with its sequence, one chunk after another.
class Layer {
 public:
  Layer(const Setting& t, bool keeps_gates)
      : t_(t),
        s_{.kind = t.kind, .steps = t.chunk, .batch = t.batch, .input = t.input, .hidden = t.hidden},
        plane_(t.batch * t.hidden) {
    s_.keeps_gates = keeps_gates;
    const std::int64_t rows = s_.weight_blocks() * t.hidden;
    fill(w_ih_, rows * t.input);
    fill(w_hh_, rows * t.hidden);
    fill(bias_, rows);
    fill(x_, t.steps * t.batch * t.input);
    fill(dy_, t.steps * plane_);
    for (Floats* like : {&dw_ih_, &dw_hh_, &db_, &dx_, &h_, &c_}) like->clear();
    dw_ih_ = w_ih_;
    dw_hh_ = w_hh_;
    db_.resize(bias_.size() * 2);
    dx_ = x_;
    h_ = c_ = dy_;
    gates_.resize(static_cast<std::size_t>(keeps_gates ? t.steps * plane_ * 4 : 0));
    state_.resize(static_cast<std::size_t>(2 * plane_));
    dstate_ = state_;
    workspace_.resize(static_cast<std::size_t>(std::max(forward_workspace(s_), backward_workspace(s_))));
  }

  // Chunk by chunk, the gears in turn.
  void run(std::span<const Gear> gears) {
    const auto gear = [&](std::int64_t k) { return gears[static_cast<std::size_t>(k / t_.chunk) % gears.size()]; };
    for (std::int64_t k = 0; k < t_.steps; k += t_.chunk) forward(k, gear(k));
    for (std::int64_t k = t_.steps - t_.chunk; k >= 0; k -= t_.chunk) backward(k, gear(k));
  }

 private:
  using Floats = std::vector<float>;
  static void fill(Floats& to, std::int64_t n) {
    to.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(i * 2654435761U % 1024) / 20000.0F - 0.025F;
  }
  static float* at(Floats& v, std::int64_t i) { return v.empty() ? nullptr : v.data() + i; }

  void forward(std::int64_t k, const Gear& gear) {
    const bool is_lstm = t_.kind == CellKind::kLstm;
    const ChunkForward b = {.x = at(x_, k * t_.batch * t_.input),
                            .w_ih = w_ih_.data(),
                            .w_hh = w_hh_.data(),
                            .b_ih = bias_.data(),
                            .b_hh = bias_.data(),
                            .h0 = k == 0 ? nullptr : state_.data(),
                            .c0 = k == 0 ? nullptr : state_.data() + plane_,
                            .h = at(h_, k * plane_),
                            .h_last = state_.data(),
                            .gates = at(gates_, k * plane_ * 4),
                            .c = at(c_, k * plane_),
                            .c_last = is_lstm ? state_.data() + plane_ : nullptr};
    run_forward(s_, b, workspace_.data(), gear);
  }

  void backward(std::int64_t k, const Gear& gear) {
    const bool is_last = k + t_.chunk == t_.steps;
    ChunkBackward b = {.dh = at(dy_, k * plane_),
                       .x = at(x_, k * t_.batch * t_.input),
                       .w_ih = w_ih_.data(),
                       .w_hh = w_hh_.data(),
                       .b_ih = bias_.data(),
                       .b_hh = bias_.data(),
                       .h0 = k == 0 ? nullptr : at(h_, (k - 1) * plane_),
                       .c0 = k == 0 ? nullptr : at(c_, (k - 1) * plane_),
                       .h = at(h_, k * plane_),
                       .c = at(c_, k * plane_),
                       .gates = at(gates_, k * plane_ * 4),
                       .dw_ih = dw_ih_.data(),
                       .dw_hh = dw_hh_.data(),
                       .db_ih = db_.data(),
                       .db_hh = db_.data() + bias_.size(),
                       .dx = at(dx_, k * t_.batch * t_.input)};
    if (k > 0) {
      b.dh0 = dstate_.data();
      b.dc0 = t_.kind == CellKind::kLstm ? dstate_.data() + plane_ : nullptr;
    }
    if (!is_last) {
      b.dh_last = dstate_.data();
      b.dc_last = dstate_.data() + plane_;
      b.dw_ih_in = b.dw_ih;
      b.dw_hh_in = b.dw_hh;
      b.db_ih_in = b.db_ih;
      b.db_hh_in = b.db_hh;
    }
    run_backward(s_, b, workspace_.data(), gear);
  }

  Setting t_;
  ChunkShape s_;
  std::int64_t plane_;
  Floats w_ih_, w_hh_, bias_, x_, dy_, dw_ih_, dw_hh_, db_, dx_, h_, c_, gates_, state_, dstate_;
  std::vector<std::byte> workspace_;
};

double now_us(Timer timer) {
  timespec t{};
  clock_gettime(timer == Timer::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// Rounds go through all in turn, so that what else the machine does strikes all alike. The first is cold.
template <class Run>
std::vector<double> least_of(std::size_t count, int rounds, std::int64_t steps, Timer timer, Run run) {
  std::vector<double> best(count, 0);
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const double start = now_us(timer);
      run(i);
      const double us = (now_us(timer) - start) / static_cast<double>(steps);
      if (round > 0) best[i] = best[i] == 0 ? us : std::min(best[i], us);
    }
  }
  return best;
}

}  // namespace

std::vector<double> times_of(const Setting& setting, const std::vector<Action>& actions, int rounds, Timer timer) {
  Layer keeping(setting, true);
  Layer making(setting, false);
  return least_of(actions.size(), rounds, setting.steps, timer, [&](std::size_t a) {
    (actions[a].keeps_gates ? keeping : making).run({&actions[a].gear, 1});
  });
}

std::vector<double> times_of_tapes(const Setting& setting, const std::vector<std::vector<Gear>>& tapes, int rounds,
                                   Timer timer) {
  Layer layer(setting, true);
  return least_of(tapes.size(), rounds, setting.steps, timer, [&](std::size_t t) { layer.run(tapes[t]); });
}

}  // namespace neap::bench
