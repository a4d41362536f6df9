#include "policy/ppo/measure.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <span>
#include <thread>

#include "core/clock.h"

namespace neap::ppo {
namespace {

// Threads that want the processors for themselves, while it lives.
class Hogs {
 public:
  explicit Hogs(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~Hogs() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }
  Hogs(const Hogs&) = delete;
  Hogs& operator=(const Hogs&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
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
  LayerRun keeping(setting, true);
  LayerRun making(setting, false);
  return least_of(actions.size(), rounds, setting.steps, timer, [&](std::size_t a) {
    (actions[a].keeps_gates ? keeping : making).run({&actions[a].gear, 1});
  });
}

std::vector<double> times_of_tapes(const Setting& setting, const std::vector<std::vector<Gear>>& tapes, int rounds,
                                   Timer timer) {
  LayerRun layer(setting, true);
  return least_of(tapes.size(), rounds, setting.steps, timer, [&](std::size_t t) { layer.run(tapes[t]); });
}

std::vector<Setting> default_settings() {
  std::vector<Setting> out;
  const auto add = [&](std::int64_t hidden, std::int64_t batch, std::int64_t chunk) {
    for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kTanh}) {
      // Inputs as wide as a layer below, or as narrow as an embedding of tokens.
      const std::int64_t input = out.size() % 2 == 0 ? hidden : 64;
      out.push_back({kind, 2 * chunk, batch, input, hidden, chunk});
    }
  };
  // Spread first: what the time does not suffice for is missing everywhere alike.
  for (const std::int64_t chunk : {16, 32, 8}) {
    for (const std::int64_t batch : {1, 32, 8}) {
      for (const std::int64_t hidden : {256, 64, 512}) add(hidden, batch, chunk);
    }
  }
  return out;
}

std::vector<Measured> measure(const std::vector<Setting>& settings, const std::vector<Action>& actions,
                              const MeasureOptions& options, const std::function<void(const Measured&)>& told) {
  std::vector<Measured> out;
  const auto start = Clock::now();
  for (const bool is_busy : {false, true}) {
    const Hogs hogs(is_busy ? std::max(1, omp_get_max_threads() / 2) : 0);
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const double share = is_busy ? 1 : 0.7;
      if (ms_since(start) > options.seconds * 1e3 * share) break;
      if (is_busy && i % 3 != 0) continue;
      out.push_back({settings[i],
                     times_of(settings[i], actions, is_busy ? std::max(1, options.rounds / 2) : options.rounds),
                     is_busy});
      told(out.back());
    }
  }
  return out;
}

}  // namespace neap::ppo
