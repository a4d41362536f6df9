// The agent beside every static gear, one layer by itself, interleaved in one run.
//   recurrent_agent regret [FROM] [COUNT]  20 settings: ten sequences to get used to it, then time over that of the
//                                          best static gear
//   recurrent_agent scenarios [CURVES]     a hog that starts in the middle, workspace cut inside sequences, batches
//                                          that change; CURVES: a file for bench/recurrent_curves.py
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "policy/ppo/agent.h"
#include "policy/ppo/layer_run.h"
#include "policy/ppo/policy_file.h"
#include "policy/ppo/times.h"

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
    const auto chunks = static_cast<std::size_t>(s.chunks());
    times_.reset(n, chunks);
    times_.tell(state_);
    taken_.resize(chunks);
    us_.resize(chunks);
    agent.reserve(index + 1, chunks);
    allow(any, 0);
    current_ = agent.best(n, state_);
  }

  // Milliseconds of a sequence, choices and lessons included.
  double sequence(const Allowed& allowed) {
    const auto start = Clock::now();
    agent_.begin_sequence(index_);
    chosen_.clear();
    std::fill(us_.begin(), us_.end(), 0.0);
    for (std::int64_t k = 0; k < s_.chunks(); ++k) {
      allow(allowed, k);
      choose(static_cast<std::size_t>(k));
      timed(k, [&] { run_.forward(k, agent_.actions()[current_].gear); });
    }
    for (std::int64_t k = s_.chunks() - 1; k >= 0; --k) {
      timed(k, [&] { run_.backward(k, agent_.actions()[taken_[static_cast<std::size_t>(k)]].gear); });
    }
    learn();
    const double ms = ms_since(start);
    credit_ms_ = std::min(credit_ms_ + 0.0008 * ms, 20.0);
    earned_ms_ += 0.0008 * ms;
    return ms;
  }

  double fixed(const Gear& gear) {
    const auto start = Clock::now();
    run_.run({&gear, 1});
    return ms_since(start);
  }

  // Chunks by gear so far, forgotten by the call.
  std::vector<double> uses() {
    std::vector<double> out(kGears.size());
    out.swap(uses_);
    return out;
  }

 private:
  void allow(const Allowed& allowed, std::int64_t k) {
    for (std::size_t a = 0; a < agent_.actions().size(); ++a) {
      state_.allowed[a] = agent_.actions()[a].keeps_gates && allowed(agent_.actions()[a].gear, k);
    }
  }
  void choose(std::size_t k) {
    const auto start = Clock::now();
    if (credit_ms_ > 0) {
      current_ = agent_.select_execution_profile(index_, current_, state_);
      chosen_.push_back(k);
    } else {
      current_ = agent_.settle(index_, current_, state_);
    }
    credit_ms_ -= ms_since(start);
    taken_[k] = current_;
    uses_[current_ % kGears.size()] += 1;
  }
  template <class Run>
  void timed(std::int64_t k, const Run& run) {
    const auto start = Clock::now();
    run();
    us_[static_cast<std::size_t>(k)] += ms_since(start) * 1e3 / static_cast<double>(s_.chunk);
  }
  void learn() {
    const double known = state_.measured_us[taken_.back()];
    state_.pace = known > 0 ? us_.back() / known : 1;
    times_.note(taken_, us_);
    times_.tell(state_);
    rewards_.clear();
    for (const std::size_t k : chosen_) {
      const bool is_switch = k > 0 && taken_[k] != taken_[k - 1];
      rewards_.push_back(neap::ppo::reward_of({us_[k], times_.best_us(), is_switch ? 0.01 * us_[k] : 0, std::nullopt}));
    }
    agent_.end_sequence(index_, rewards_);
    if (++sequences_ % 16 != 0 || credit_ms_ <= 0 || earned_ms_ < lesson_ms_ || agent_.remembered() == 0) return;
    const auto lesson = Clock::now();
    agent_.learn(1);
    lesson_ms_ = ms_since(lesson);
    credit_ms_ -= lesson_ms_;
    earned_ms_ = 0;
  }

  Agent& agent_;
  std::size_t index_;
  Setting s_;
  LayerRun run_;
  LayerState state_;
  neap::ppo::Times times_;
  std::vector<std::size_t> taken_, chosen_;
  std::vector<double> us_, rewards_, uses_ = std::vector<double>(kGears.size());
  std::size_t current_ = 0;
  int sequences_ = 0;
  // What choices and lessons may take, as in training.
  double credit_ms_ = 20, earned_ms_ = 0, lesson_ms_ = 10;
};

Agent make_agent(std::uint64_t seed = 0) {
  Agent out({.gears = kGears, .ppo = {.epsilon = 0.01}, .seed = seed});
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

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// What the agent loses: its median sequence (choices included) over that of the best static gear, and what its tries
// lose, reckoned from the static gears' medians. Not means: a machine that stops for some milliseconds now and then
// would strike the agent in full, and the best of seven gears hardly.
void regret(std::size_t from, std::size_t count) {
  int within = 0;
  const std::vector<Setting> all = settings();
  const std::size_t end = std::min(all.size(), from + count);
  for (std::size_t i = from; i < end; ++i) {
    const Setting& s = all[i];
    Agent agent = make_agent(i);
    Driven layer(agent, 0, s);
    double adaptive_guess = 0;  // ms of a sequence
    for (int warm = 0; warm < 10; ++warm) adaptive_guess = layer.sequence(any);
    layer.uses();
    std::vector<double> adaptive;
    std::vector<std::vector<double>> fixed(kGears.size());
    const int rounds = std::clamp(static_cast<int>(300 / (1 + adaptive_guess)), 9, 41);
    for (int round = 0; round < rounds; ++round) {
      adaptive.push_back(layer.sequence(any));
      for (std::size_t g = 0; g < kGears.size(); ++g) fixed[g].push_back(layer.fixed(kGears[g]));
    }
    std::vector<double> ms;
    for (const auto& times : fixed) ms.push_back(median(times));
    const std::size_t best = static_cast<std::size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin());
    const std::vector<double> uses = layer.uses();
    const std::size_t home = static_cast<std::size_t>(std::max_element(uses.begin(), uses.end()) - uses.begin());
    double tries = 0;
    for (std::size_t g = 0; g < uses.size(); ++g) {
      tries += uses[g] * (ms[g] / ms[home] - 1) / static_cast<double>(rounds * s.chunks());
    }
    const double over = median(adaptive) / ms[best] - 1;
    within += over + tries <= 0.03 ? 1 : 0;
    std::printf("| %s, T %ld, batch %ld, input %ld, H %ld, chunks of %ld | %s | %s | %.2f | %+.1f %% | %+.1f %% |\n",
                name_of(s.kind), s.steps, s.batch, s.input, s.hidden, s.chunk, kGears[home].text().c_str(),
                kGears[best].text().c_str(), ms[best], 100 * over, 100 * tries);
    std::fflush(stdout);
  }
  std::printf("%d of %zu within 3 %%\n", within, end - from);
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

// A scenario: some sequences, run in one way (0: the agent, g: the static gear g - 1); milliseconds of each, none where
// the gear is not possible.
using Scenario = std::function<std::vector<double>(std::size_t way)>;

double sum_of(const std::vector<double>& ms) {
  double out = 0;
  for (const double t : ms) out += t;
  return out;
}

// `curves` gets a line of JSON: the means of each sequence.
void compare(const char* what, int repeats, std::FILE* curves, const Scenario& run) {
  std::vector<std::vector<double>> ms(kGears.size() + 1);
  for (int r = 0; r < repeats; ++r) {
    for (std::size_t way = 0; way < ms.size(); ++way) {
      const std::vector<double> once = run(way);
      ms[way].resize(once.size());
      for (std::size_t i = 0; i < once.size(); ++i) ms[way][i] += once[i] / repeats;
    }
  }
  std::size_t best = 0;
  for (std::size_t g = 1; g < ms.size(); ++g) {
    if (!ms[g].empty() && (best == 0 || sum_of(ms[g]) < sum_of(ms[best]))) best = g;
  }
  const double agent = sum_of(ms[0]);
  const double fixed = sum_of(ms[best]);
  std::printf("| %s | %.1f | %s | %.1f | %.3f |\n", what, agent, kGears[best - 1].text().c_str(), fixed, agent / fixed);
  std::fflush(stdout);
  if (curves == nullptr) return;
  std::fprintf(curves, "{\"what\": \"%s\"", what);
  for (std::size_t way = 0; way < ms.size(); ++way) {
    if (ms[way].empty()) continue;
    std::fprintf(curves, ", \"%s\": [", way == 0 ? "agent" : kGears[way - 1].text().c_str());
    for (std::size_t i = 0; i < ms[way].size(); ++i) std::fprintf(curves, "%s%.3f", i == 0 ? "" : ", ", ms[way][i]);
    std::fprintf(curves, "]");
  }
  std::fprintf(curves, "}\n");
}

void scenarios(std::FILE* curves) {
  const Setting s{CellKind::kLstm, 128, 8, 256, 256, 16};
  Agent agent = make_agent();
  Driven layer(agent, 0, s);
  const auto once = [&](Driven& d, std::size_t way, const Allowed& allowed) {
    return way == 0 ? d.sequence(allowed) : d.fixed(kGears[way - 1]);
  };
  for (int i = 0; i < 10; ++i) layer.sequence(any);
  compare("a hog from the middle on", 3, curves, [&](std::size_t way) {
    std::vector<double> ms;
    std::optional<Hog> hog;
    for (int i = 0; i < 20; ++i) {
      if (i == 10) hog.emplace();
      ms.push_back(once(layer, way, any));
    }
    return ms;
  });
  // From the middle of each sequence on there is workspace for pieces of one step only.
  const Allowed cut = [](const Gear& g, std::int64_t k) { return k < 4 || g.kind == Gear::Kind::kRolled; };
  compare("workspace cut in the middle of the sequence", 3, curves, [&](std::size_t way) {
    std::vector<double> ms;
    const bool is_possible = way == 0 || kGears[way - 1].kind == Gear::Kind::kRolled;
    for (int i = 0; i < 10 && is_possible; ++i) ms.push_back(once(layer, way, cut));
    return ms;
  });
  Driven small(agent, 1, {CellKind::kLstm, 128, 1, 256, 256, 16});
  Driven large(agent, 2, {CellKind::kLstm, 128, 32, 256, 256, 16});
  compare("batches of 1 and 32 in turn", 3, curves, [&](std::size_t way) {
    std::vector<double> ms;
    for (int i = 0; i < 10; ++i) ms.push_back(once(i % 2 == 0 ? small : large, way, any));
    return ms;
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "regret";
  std::printf("%d threads\n", omp_get_max_threads());
  const auto number = [&](int i, std::size_t otherwise) {
    return argc > i ? static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  if (what == "regret") regret(number(2, 0), number(3, 20));
  if (what == "scenarios") {
    std::FILE* curves = argc > 2 ? std::fopen(argv[2], "w") : nullptr;
    scenarios(curves);
    if (curves != nullptr) std::fclose(curves);
  }
  return 0;
}
