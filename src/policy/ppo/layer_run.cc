#include "policy/ppo/layer_run.h"

#include <algorithm>

#include "neap/error.h"
#include "recurrent/chunk.h"

namespace neap::ppo {
namespace {

using Floats = std::vector<float>;

void fill(Floats& to, std::int64_t n) {
  to.resize(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(i * 2654435761U % 1024) / 20000.0F - 0.025F;
}

float* at(Floats& v, std::int64_t i) { return v.empty() ? nullptr : v.data() + i; }

}  // namespace

LayerRun::LayerRun(const Setting& t, bool keeps_gates)
    : t_(t),
      s_{.kind = t.kind, .steps = t.chunk, .batch = t.batch, .input = t.input, .hidden = t.hidden},
      plane_(t.batch * t.hidden) {
  require(t.chunk > 0 && t.steps % t.chunk == 0, "a sequence is whole chunks");
  s_.keeps_gates = keeps_gates;
  const std::int64_t rows = s_.weight_blocks() * t.hidden;
  fill(w_ih_, rows * t.input);
  fill(w_hh_, rows * t.hidden);
  fill(bias_, rows);
  fill(x_, t.steps * t.batch * t.input);
  fill(dy_, t.steps * plane_);
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

void LayerRun::run(std::span<const Gear> gears) {
  const auto gear = [&](std::int64_t k) { return gears[static_cast<std::size_t>(k) % gears.size()]; };
  for (std::int64_t k = 0; k < t_.chunks(); ++k) forward(k, gear(k));
  for (std::int64_t k = t_.chunks() - 1; k >= 0; --k) backward(k, gear(k));
}

void LayerRun::forward(std::int64_t chunk, const Gear& gear) {
  const std::int64_t k = chunk * t_.chunk;
  const bool is_lstm = t_.kind == CellKind::kLstm;
  s_.start = k;
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

void LayerRun::backward(std::int64_t chunk, const Gear& gear) {
  const std::int64_t k = chunk * t_.chunk;
  const bool is_last = k + t_.chunk == t_.steps;
  s_.start = k;
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

}  // namespace neap::ppo
