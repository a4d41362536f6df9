// The agent beside every static gear, one layer by itself, interleaved in one run.
//   recurrent_agent regret      20 settings: ten sequences to get used to it, then time over that of the best static
//   gear recurrent_agent scenarios   a hog that starts in the middle, workspace cut inside sequences, batches that
//   change
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "policy/ppo/agent.h"
#include "policy/ppo/layer_run.h"
#include "policy/ppo/policy_file.h"

namespace {

using neap::CellKind;
using neap::Clock;
using neap::Gear;
using neap::ms_since;
using neap::ppo::Agent;
using neap::ppo::LayerRun;
using neap::ppo::LayerState;
using neap::ppo::Setting;

const std::vector<Gear> kGears = neap::default_gears();

// Which gears a chunk may take.
using Allowed = std::function<bool(const Gear&, std::int64_t chunk)>;
bool any(const Gear& /*gear*/, std::int64_t /*chunk*/) { return true; }

// A layer that the agent drives, as training does (train/gearbox.cc).
class Driven {
 public:
  Driven(Agent& agent, std::size_t index, const Setting& s) : agent_(agent), index_(index), s_(s), run_(s, true) {
    const std::size_t n = agent.actions().size();
    state_ = {.kind = s.kind,
              .steps = s.steps,
              .batch = s.batch,
              .input = s.input,
              .hidden = s.hidden,
              .chunk = s.chunk,
              .allowed = std::vector<bool>(n),
              .measured_us = std::vector<double>(n)};
    allow(any, 0);
    current_ = agent.best(n, state_);
  }

  // Milliseconds of a sequence, choices and lessons included.
  double sequence(const Allowed& allowed) {
    const auto start = Clock::now();
    agent_.begin_sequence(index_);
    std::vector<std::size_t> taken;
    std::vector<std::size_t> chosen;  // chunks
    std::vector<double> us(static_cast<std::size_t>(s_.chunks()));
    for (std::int64_t k = 0; k < s_.chunks(); ++k) {
      allow(allowed, k);
      const bool must_leave = !state_.allowed[current_];
      if (credit_ms_ > 0 || must_leave) {
        const auto choice = Clock::now();
        current_ = agent_.select_execution_profile(index_, current_, state_);
        credit_ms_ -= ms_since(choice);
        chosen.push_back(static_cast<std::size_t>(k));
      }
      taken.push_back(current_);
      timed(us, k, [&] { run_.forward(k, agent_.actions()[current_].gear); });
    }
    for (std::int64_t k = s_.chunks() - 1; k >= 0; --k) {
      timed(us, k, [&] { run_.backward(k, agent_.actions()[taken[static_cast<std::size_t>(k)]].gear); });
    }
    learn(taken, chosen, us);
    const double ms = ms_since(start);
    credit_ms_ = std::min(credit_ms_ + 0.0008 * ms, 20.0);
    return ms;
  }

  double fixed(const Gear& gear) {
    const auto start = Clock::now();
    run_.run({&gear, 1});
    return ms_since(start);
  }

  const Gear& gear() const { return agent_.actions()[current_].gear; }

 private:
  void allow(const Allowed& allowed, std::int64_t k) {
    for (std::size_t a = 0; a < agent_.actions().size(); ++a) {
      state_.allowed[a] = agent_.actions()[a].keeps_gates && allowed(agent_.actions()[a].gear, k);
    }
  }
  template <class Run>
  void timed(std::vector<double>& us, std::int64_t k, const Run& run) const {
    const auto start = Clock::now();
    run();
    us[static_cast<std::size_t>(k)] += ms_since(start) * 1e3 / static_cast<double>(s_.chunk);
  }
  void learn(const std::vector<std::size_t>& taken, const std::vector<std::size_t>& chosen,
             const std::vector<double>& us) {
    for (std::size_t k = 0; k < us.size(); ++k) {
      double& known = state_.measured_us[taken[k]];
      state_.pace = known > 0 ? us[k] / known : 1;
      known = known > 0 ? 0.8 * known + 0.2 * us[k] : us[k];
    }
    double best = 0;
    for (const double t : state_.measured_us) best = t > 0 && (best == 0 || t < best) ? t : best;
    std::vector<double> rewards;
    for (const std::size_t k : chosen) {
      const bool is_switch = k > 0 && taken[k] != taken[k - 1];
      rewards.push_back(neap::ppo::reward_of({us[k], best, is_switch ? 0.01 * us[k] : 0, std::nullopt}));
    }
    agent_.end_sequence(index_, rewards);
    if (++sequences_ % 8 != 0 || credit_ms_ <= 0) return;
    const auto lesson = Clock::now();
    agent_.learn(1);
    credit_ms_ -= ms_since(lesson);
  }

  Agent& agent_;
  std::size_t index_;
  Setting s_;
  LayerRun run_;
  LayerState state_;
  std::size_t current_ = 0;
  int sequences_ = 0;
  double credit_ms_ = 20;  // that choices and lessons may take, as in training
};

Agent make_agent() {
  Agent out({.gears = kGears, .ppo = {.epsilon = 0.01}});
  out.network().load(neap::ppo::default_learnt().weights);
  return out;
}

std::vector<Setting> settings() {
  std::vector<Setting> out;
  for (const std::int64_t hidden : {128, 384}) {
    for (const std::int64_t batch : {1, 4, 16, 48}) {
      out.push_back({CellKind::kLstm, 64, batch, hidden, hidden, 16});
      out.push_back({CellKind::kGru, 32, batch, hidden / 2, hidden, 8});
    }
  }
  for (const std::int64_t batch : {1, 24}) {
    out.push_back({CellKind::kTanh, 96, batch, 256, 256, 32});
    out.push_back({CellKind::kLstm, 64, batch, 96, 640, 32});
  }
  return out;
}

const char* name_of(CellKind kind) { return kind == CellKind::kLstm ? "LSTM" : kind == CellKind::kGru ? "GRU" : "RNN"; }

void regret() {
  int within = 0;
  const std::vector<Setting> all = settings();
  for (const Setting& s : all) {
    Agent agent = make_agent();
    Driven layer(agent, 0, s);
    double adaptive_guess = 0;  // ms of a sequence
    for (int i = 0; i < 10; ++i) adaptive_guess = layer.sequence(any);
    double adaptive = 0;
    std::vector<double> fixed(kGears.size());
    const int rounds = std::clamp(static_cast<int>(300 / (1 + adaptive_guess)), 8, 40);
    for (int round = 0; round < rounds; ++round) {
      adaptive += layer.sequence(any);
      for (std::size_t g = 0; g < kGears.size(); ++g) fixed[g] += layer.fixed(kGears[g]);
    }
    const auto best = std::min_element(fixed.begin(), fixed.end());
    const double over = adaptive / *best - 1;
    within += over <= 0.03 ? 1 : 0;
    std::printf("| %s, T %ld, batch %ld, input %ld, H %ld, chunks of %ld | %s | %s | %.2f | %+.1f %% |\n",
                name_of(s.kind), s.steps, s.batch, s.input, s.hidden, s.chunk, layer.gear().text().c_str(),
                kGears[static_cast<std::size_t>(best - fixed.begin())].text().c_str(), *best / rounds, 100 * over);
    std::fflush(stdout);
  }
  std::printf("%d of %zu within 3 %%\n", within, all.size());
}

class Hog {
 public:
  Hog()
      : thread_([this] {
          while (!stop_.load(std::memory_order_relaxed)) {
          }
        }) {}
  ~Hog() {
    stop_ = true;
    thread_.join();
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// `run` gets a way of running (0: the agent, g: the static gear g - 1) and gives milliseconds; negative: not possible.
void compare(const char* what, int repeats, const std::function<double(std::size_t)>& run) {
  std::vector<double> ms(kGears.size() + 1);
  for (int r = 0; r < repeats; ++r) {
    for (std::size_t way = 0; way < ms.size(); ++way) ms[way] += run(way);
  }
  std::size_t best = 0;
  for (std::size_t g = 1; g < ms.size(); ++g) {
    if (ms[g] > 0 && (best == 0 || ms[g] < ms[best])) best = g;
  }
  std::printf("| %s | %.1f | %s | %.1f | %.3f |\n", what, ms[0] / repeats, kGears[best - 1].text().c_str(),
              ms[best] / repeats, ms[0] / ms[best]);
  std::fflush(stdout);
}

void scenarios() {
  const Setting s{CellKind::kLstm, 128, 8, 256, 256, 16};
  Agent agent = make_agent();
  Driven layer(agent, 0, s);
  for (int i = 0; i < 10; ++i) layer.sequence(any);
  compare("a hog from the middle on", 3, [&](std::size_t way) {
    double ms = 0;
    std::optional<Hog> hog;
    for (int i = 0; i < 20; ++i) {
      if (i == 10) hog.emplace();
      ms += way == 0 ? layer.sequence(any) : layer.fixed(kGears[way - 1]);
    }
    return ms;
  });
  // From the middle of each sequence on there is workspace for pieces of one step only.
  const Allowed cut = [](const Gear& g, std::int64_t k) { return k < 4 || g.kind == Gear::Kind::kRolled; };
  compare("workspace cut in the middle of the sequence", 3, [&](std::size_t way) {
    double ms = 0;
    const bool is_possible = way == 0 || kGears[way - 1].kind == Gear::Kind::kRolled;
    for (int i = 0; i < 10 && is_possible; ++i) ms += way == 0 ? layer.sequence(cut) : layer.fixed(kGears[way - 1]);
    return is_possible ? ms : -1;
  });
  Driven small(agent, 1, {CellKind::kLstm, 128, 1, 256, 256, 16});
  Driven large(agent, 2, {CellKind::kLstm, 128, 32, 256, 256, 16});
  compare("batches of 1 and 32 in turn", 3, [&](std::size_t way) {
    double ms = 0;
    for (int i = 0; i < 10; ++i) {
      Driven& now = i % 2 == 0 ? small : large;
      ms += way == 0 ? now.sequence(any) : now.fixed(kGears[way - 1]);
    }
    return ms;
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "regret";
  std::printf("%d threads\n", omp_get_max_threads());
  if (what == "regret") regret();
  if (what == "scenarios") scenarios();
  return 0;
}
