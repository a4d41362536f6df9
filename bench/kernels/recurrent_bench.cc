// Times recurrent layers as training runs them, chunk by chunk, forward and backward, with the weight gradients summed
// in place. Usage: recurrent_bench [substring of a row's name]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cpu/isa.h"
#include "recurrent/chunk.h"
#include "recurrent/gear.h"

namespace {

using neap::CellKind;
using neap::ChunkBackward;
using neap::ChunkForward;
using neap::ChunkShape;

struct Case {
  const char* name;
  CellKind kind;
  std::int64_t layers, steps, batch, hidden, chunk;
};

class Floats {
 public:
  explicit Floats(std::int64_t n) : data_(new (std::align_val_t{64}) float[static_cast<std::size_t>(n)]) {
    for (std::int64_t i = 0; i < n; ++i) data_[i] = static_cast<float>(i * 2654435761 % 1024 - 512) / 20000.0F;
  }
  ~Floats() { ::operator delete[](data_, std::align_val_t{64}); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* at(std::int64_t i) const { return data_ + i; }

 private:
  float* data_;
};

struct Layer {
  explicit Layer(const ChunkShape& s, std::int64_t steps)
      : w_ih(s.weight_blocks() * s.hidden * s.input),
        w_hh(s.weight_blocks() * s.hidden * s.hidden),
        bias(s.weight_blocks() * s.hidden),
        dw_ih(s.weight_blocks() * s.hidden * s.input),
        dw_hh(s.weight_blocks() * s.hidden * s.hidden),
        db(2 * s.weight_blocks() * s.hidden),
        h(steps * s.batch * s.hidden),
        c(steps * s.batch * s.hidden),
        gates(steps * s.batch * 4 * s.hidden),
        dx(steps * s.batch * s.input),
        state(2 * s.batch * s.hidden),
        dstate(2 * s.batch * s.hidden) {}
  Floats w_ih, w_hh, bias, dw_ih, dw_hh, db, h, c, gates, dx, state, dstate;
};

class Bench {
 public:
  explicit Bench(const Case& t)
      : t_(t),
        s_{.kind = t.kind, .steps = t.chunk, .batch = t.batch, .input = t.hidden, .hidden = t.hidden},
        plane_(t.batch * t.hidden),
        x_(t.steps * plane_),
        dy_(t.steps * plane_),
        workspace_(std::max(neap::forward_workspace(s_), neap::backward_workspace(s_)) / 4 + 1) {
    for (std::int64_t l = 0; l < t.layers; ++l) layers_.push_back(std::make_unique<Layer>(s_, t.steps));
  }

  void forward() {
    for (std::int64_t k = 0; k < t_.steps; k += t_.chunk) {
      for (std::int64_t l = 0; l < t_.layers; ++l) {
        const Layer& y = *layers_[l];
        const bool is_first = k == 0;
        const ChunkForward b = {.x = (l == 0 ? x_ : layers_[l - 1]->h).at(k * plane_),
                                .w_ih = y.w_ih.at(0),
                                .w_hh = y.w_hh.at(0),
                                .b_ih = y.bias.at(0),
                                .b_hh = y.bias.at(0),
                                .h0 = is_first ? nullptr : y.state.at(0),
                                .c0 = is_first ? nullptr : y.state.at(plane_),
                                .h = y.h.at(k * plane_),
                                .h_last = y.state.at(0),
                                .gates = y.gates.at(k * plane_ * 4),
                                .c = y.c.at(k * plane_),
                                .c_last = y.state.at(plane_)};
        run_forward(s_, b, workspace(), {});
      }
    }
  }

  void backward() {
    for (std::int64_t k = t_.steps - t_.chunk; k >= 0; k -= t_.chunk) {
      for (std::int64_t l = t_.layers; l-- > 0;) backward_chunk(k, l);
    }
  }

  double flop() const {
    return 2.0 * static_cast<double>(t_.layers * t_.steps * t_.batch * s_.weight_blocks() * t_.hidden) *
           static_cast<double>(2 * t_.hidden);
  }

 private:
  std::byte* workspace() const { return reinterpret_cast<std::byte*>(workspace_.at(0)); }

  void backward_chunk(std::int64_t k, std::int64_t l) {
    const Layer& y = *layers_[l];
    const bool is_last = k + t_.chunk == t_.steps;
    ChunkBackward b = {.dh = (l + 1 == t_.layers ? dy_ : layers_[l + 1]->dx).at(k * plane_),
                       .x = (l == 0 ? x_ : layers_[l - 1]->h).at(k * plane_),
                       .w_ih = y.w_ih.at(0),
                       .w_hh = y.w_hh.at(0),
                       .h0 = k == 0 ? nullptr : y.h.at((k - 1) * plane_),
                       .c0 = k == 0 ? nullptr : y.c.at((k - 1) * plane_),
                       .h = y.h.at(k * plane_),
                       .c = y.c.at(k * plane_),
                       .gates = y.gates.at(k * plane_ * 4),
                       .dw_ih = y.dw_ih.at(0),
                       .dw_hh = y.dw_hh.at(0),
                       .db_ih = y.db.at(0),
                       .db_hh = y.db.at(s_.weight_blocks() * t_.hidden),
                       .dx = y.dx.at(k * plane_)};
    if (k > 0) {
      b.dh0 = y.dstate.at(0);
      b.dc0 = y.dstate.at(plane_);
    }
    if (!is_last) {
      b.dh_last = y.dstate.at(0);
      b.dc_last = y.dstate.at(plane_);
      b.dw_ih_in = b.dw_ih;
      b.dw_hh_in = b.dw_hh;
      b.db_ih_in = b.db_ih;
      b.db_hh_in = b.db_hh;
    }
    run_backward(s_, b, workspace(), {});
  }

  Case t_;
  ChunkShape s_;
  std::int64_t plane_;
  Floats x_, dy_, workspace_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void run(const Case& t) {
  Bench bench(t);
  const int rounds = t.steps * t.hidden > 32768 ? 6 : 30;
  double forward = 1e30;
  double both = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const double start = seconds();
    bench.forward();
    const double middle = seconds();
    bench.backward();
    const double end = seconds();
    forward = std::min(forward, middle - start);
    both = std::min(both, end - start);
  }
  const double giga = bench.flop() / 1e9;
  std::printf("%-8s %3ld %5ld %5ld %5ld %5ld  %8.1f %8.1f %9.1f %9.1f %9.1f\n", t.name, t.layers, t.steps, t.batch,
              t.hidden, t.chunk, forward * 1e3, both * 1e3, giga / forward, 2 * giga / (both - forward),
              3 * giga / both);
  std::fflush(stdout);
}

const std::vector<Case> kCases = {
    {"lstm", CellKind::kLstm, 2, 128, 32, 512, 4},   {"lstm", CellKind::kLstm, 2, 128, 32, 512, 16},
    {"short", CellKind::kLstm, 2, 32, 32, 512, 16},  {"lstm", CellKind::kLstm, 2, 128, 32, 512, 32},
    {"lstm", CellKind::kLstm, 2, 128, 32, 512, 128}, {"lstm", CellKind::kLstm, 1, 128, 1, 256, 16},
    {"lstm", CellKind::kLstm, 1, 64, 64, 1024, 16},  {"lstm100", CellKind::kLstm, 1, 64, 10, 100, 16},
    {"gru", CellKind::kGru, 2, 128, 32, 512, 16},    {"rnn", CellKind::kTanh, 2, 128, 32, 512, 16},
};

}  // namespace

int main(int argc, char** argv) {
  const char* filter = argc > 1 ? argv[1] : "";
  std::printf("ISA %s, %d threads\n", neap::isa_name(), omp_get_max_threads());
  std::printf("%-8s %3s %5s %5s %5s %5s  %8s %8s %9s %9s %9s\n", "", "L", "T", "batch", "units", "chunk", "fwd ms",
              "both ms", "fwd GF/s", "bwd GF/s", "all GF/s");
  for (const Case& t : kCases) {
    if (std::strstr(t.name, filter) != nullptr) run(t);
  }
  return 0;
}
