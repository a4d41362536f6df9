// Optimizations chosen while training runs, beside all that could have been chosen.
//   tuner_bench choice MODEL [STEPS [free]]       the tuner in a run of STEPS (500); then every combination of
//                                                 strategies and subgraphs, the document's table and what the tuner
//                                                 left, in turn
//   tuner_bench hooks MODEL                       steps with and without the times of all calls, in turn
//   tuner_bench hog MODEL [STEPS [COPIES]]        one thread trains; in the second third COPIES (1) others copy memory
#include "train/tuner.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "autodiff/optimizer.h"
#include "core/clock.h"
#include "core/random.h"
#include "graph/initial.h"
#include "neap/model.h"
#include "train/median.h"

namespace {

using namespace neap;

constexpr int kRounds = 31;
constexpr int kHogRounds = 11;

// A model on made-up data, its weights as they were in the beginning.
class Bench {
 public:
  Bench(const std::string& model, std::int64_t steps, int threads, const std::string& numerics = "fixed") {
    options_.steps = steps;
    options_.numerics = numerics;
    options_.threads = threads;
    setup_ = make_setup(open_model(model), options_);
    TrainOptions rest = options_;
    const auto tuned = tuner_options();
    rest.optimize = settled_passes(options_.optimize, tuned ? tuned->library : std::vector<const Optimization*>{});
    settled_ = build_training(setup_.spec, rest, setup_.variants[0]);
    arena_ = setup_.device->make_arena(4 * setup_.plan.peak_bytes, false);
    arena_->resize(arena_->capacity());
    const Graph& graph = setup_.program->graph;
    base_ = std::make_unique<Stepper>(setup_.shape, setup_.program, setup_.plan, layout_of(setup_.plan, graph),
                                      *setup_.device, *arena_, nullptr);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (is_state(graph.tensors[i].role)) base_->executor().write({i}, initial_value(graph.tensors[i], 0).data());
    }
    for (const DataInput& input : base_->inputs()) data_[input.name] = stand_in(graph.at(input.id));
  }

  std::optional<TunerOptions> tuner_options() const { return neap::tuner_options(options_, setup_); }
  Tuner tuner(TunerOptions options) {
    return {TunedRun{.device = *setup_.device,
                     .arena = *arena_,
                     .settled = [this] { return settled_; },
                     .base = *base_,
                     .put_in = [this](Stepper& s) { put_in(s); }},
            std::move(options)};
  }
  const Graph& settled() const { return settled_; }
  Stepper& base() { return *base_; }

  std::unique_ptr<Stepper> stepper(const Graph& graph) {
    auto program = std::make_shared<Program>(prepare(graph, *setup_.device));
    program->costs.ms.assign(graph.nodes.size(), 1);
    StateLayout layout = shared_layout(setup_.program->graph, setup_.plan, program->graph);
    const PlanningProblem problem{.graph = program->graph, .costs = program->costs, .link = {}, .layout = &layout};
    Plan plan = plan_within(store_all_policy(), problem, std::nullopt);
    return std::make_unique<Stepper>(setup_.shape, std::move(program), std::move(plan), std::move(layout),
                                     *setup_.device, *arena_, nullptr);
  }
  void put_in(Stepper& s) const {
    s.enter();
    for (const DataInput& input : s.inputs()) s.executor().write(input.id, data_.at(input.name).data());
    const Hyper hyper = hyper_at(1, 0, options_.optimizer);
    if (s.hyper()) s.executor().write(s.hyper(), hyper.data());
    const std::array<std::uint64_t, 3> key = {0, 1, 0};
    if (s.random()) s.executor().write(s.random(), key.data());
  }
  double run(Stepper& s) const {
    put_in(s);
    const auto start = Clock::now();
    s.executor().run();
    return ms_since(start);
  }

 private:
  std::vector<std::byte> stand_in(const Tensor& tensor) const {
    std::vector<std::byte> out(static_cast<std::size_t>(tensor.type.bytes()));
    RandomStream random(hash_text(tensor.name));
    const auto bound = static_cast<std::uint64_t>(std::max<std::int64_t>(1, setup_.spec.model->bound(tensor.name)));
    for (std::int64_t i = 0; i < tensor.type.elements(); ++i) {
      const auto x = static_cast<float>(2 * random.uniform() - 1);
      const auto n = static_cast<std::int32_t>(random.below(bound));
      if (tensor.type.dtype == DType::kF32) std::memcpy(out.data() + 4 * i, &x, sizeof x);
      if (tensor.type.dtype == DType::kI32) std::memcpy(out.data() + 4 * i, &n, sizeof n);
    }
    return out;
  }

  TrainOptions options_;
  Setup setup_;
  Graph settled_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Stepper> base_;
  std::map<std::string, std::vector<std::byte>> data_;
};

// One step as the trainer takes it; its milliseconds.
double step(Bench& bench, Tuner& tuner) {
  Stepper& stepper = tuner.before(std::nullopt);
  bench.put_in(stepper);
  std::vector<double> timed;
  const auto start = Clock::now();
  if (tuner.wants_notes()) {
    tuner.run_noted();
  } else if (tuner.wants_times()) {
    stepper.executor().run_timed(timed);
  } else {
    stepper.executor().run();
  }
  const double ms = ms_since(start);
  tuner.after(ms, timed);
  return ms;
}

std::string text_of(const Pieces& pieces, const Actions& actions) {
  std::string out;
  for (const int action : actions) out += (out.empty() ? "" : " ") + pieces.way(action).name;
  return out;
}

struct Contestant {
  std::string name;
  Stepper* stepper = nullptr;
  std::vector<double> ms;
};

void race(Bench& bench, std::vector<Contestant>& all, int rounds) {
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contestant& each = all[(i + static_cast<std::size_t>(round + 1)) % all.size()];
      const double ms = bench.run(*each.stepper);
      if (round >= 0) each.ms.push_back(ms);
    }
  }
}

// Every way to give each piece one action of `count`, counted up like a number.
bool count_up(Actions& actions, int count) {
  for (int& action : actions) {
    if (++action < count) return true;
    action = 0;
  }
  return false;
}

int choice(const std::string& model, std::int64_t steps, const std::string& numerics) {
  Bench bench(model, steps, 0, numerics);
  auto options = bench.tuner_options();
  if (!options) return std::printf("%s: there is nothing to choose\n", model.c_str()), 1;
  options->tuning.subgraphs.initial_granularity = 2;
  const std::vector<Way> ways = ways_of(options->library);
  const Pieces pieces(bench.settled(), ways, options->tuning.subgraphs);
  std::vector<Strategy> strategies;
  for (std::size_t i = 1; i < ways.size(); ++i) strategies.push_back(ways[i].strategy);
  const dqn::Agent fresh(strategies, {});
  Tuner tuner = bench.tuner(*options);
  for (std::int64_t i = 0; i < steps; ++i) {
    step(bench, tuner);
    for (const std::string& line : tuner.take_log())
      std::printf("  step %lld: %s\n", static_cast<long long>(i) + 1, line.c_str());
  }
  Actions table;
  for (std::size_t p = 0; p < pieces.size(); ++p) table.push_back(fresh.by_table(pieces.state(p, 1, 0)));

  std::map<std::string, std::unique_ptr<Stepper>> made;  // by numerics: many combinations come to the same
  std::vector<Contestant> all = {{"the tuner's", &tuner.current(), {}}, {"everything", &bench.base(), {}}};
  const auto add = [&](const std::string& name, const Actions& actions) {
    auto stepper = bench.stepper(pieces.rewritten(actions));
    auto& place = made[stepper->program()->numerics_id];
    const bool is_new = place == nullptr;
    if (is_new) place = std::move(stepper);
    if (is_new || name != text_of(pieces, actions)) all.push_back({name, place.get(), {}});
  };
  Actions actions(pieces.size(), 0);
  add("nothing", actions);
  add("the table's", table);
  int combinations = 1;
  while (count_up(actions, static_cast<int>(ways.size()))) {
    ++combinations;
    add(text_of(pieces, actions), actions);
  }
  race(bench, all, kRounds);
  double best = 1e300;
  for (const Contestant& each : all) best = std::min(best, median(each.ms));
  std::printf("%s: %d combinations, %zu different; over the best:\n", model.c_str(), combinations, made.size());
  for (const Contestant& each : all)
    std::printf("  %8.3f ms  %+6.2f %%  %s\n", median(each.ms), 100 * (median(each.ms) / best - 1), each.name.c_str());
  const TuningReport report = tuner.report();
  std::printf("trials %d, adopted %d, changes %d, drifts %d, overruled %d, cost %.2f %% of the run\n", report.trials,
              report.adopted, report.changes, report.drifts, report.overruled, 100 * report.spent_share);
  return 0;
}

int hooks(const std::string& model) {
  Bench bench(model, 1000, 0);
  std::vector<double> plain;
  std::vector<double> timed;
  std::vector<double> each;
  for (int i = 0; i < 200; ++i) {
    bench.put_in(bench.base());
    const auto start = Clock::now();
    if (i % 2 == 0) {
      bench.base().executor().run();
    } else {
      bench.base().executor().run_timed(each);
    }
    if (i >= 10) (i % 2 == 0 ? plain : timed).push_back(ms_since(start));
  }
  std::printf("%s: %.3f ms without, %.3f ms with the times of %zu calls: %+.2f %%\n", model.c_str(), median(plain),
              median(timed), each.size(), 100 * (median(timed) / median(plain) - 1));
  return 0;
}

// Copies memory beyond every cache until it is told to stop.
class Hog {
 public:
  Hog()
      : thread_([this] {
          std::vector<char> a(std::size_t{256} << 20, 1);
          std::vector<char> b(a.size());
          while (!stop_) std::memcpy(b.data(), a.data(), a.size());
        }) {}
  ~Hog() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

int hog(const std::string& model, std::int64_t steps, int copies) {
  Bench bench(model, steps, 1, "free");
  auto options = bench.tuner_options();
  if (!options) return std::printf("%s: there is nothing to choose\n", model.c_str()), 1;
  options->tuning.trial_share = 0.05;
  Tuner tuner = bench.tuner(*options);
  const auto plain = bench.stepper(bench.settled());
  std::vector<std::unique_ptr<Hog>> hogs;
  std::vector<double> ms;
  for (std::int64_t i = 1; i <= steps; ++i) {
    ms.push_back(step(bench, tuner));
    for (const std::string& line : tuner.take_log()) {
      std::printf("  step %lld: %s\n", static_cast<long long>(i), line.c_str());
    }
    if (i % (steps / 3) != 0) continue;
    std::printf("  steps to %lld, %s: %.2f ms\n", static_cast<long long>(i), hogs.empty() ? "alone" : "beside the hog",
                median(ms));
    ms.clear();
    std::vector<Contestant> all = {
        {"the tuner's", &tuner.current(), {}}, {"everything", &bench.base(), {}}, {"nothing", plain.get(), {}}};
    race(bench, all, kHogRounds);
    for (const Contestant& each : all) std::printf("    %8.2f ms  %s\n", median(each.ms), each.name.c_str());
    const bool begins = hogs.empty();
    hogs.clear();
    for (int k = 0; begins && k < copies; ++k) hogs.push_back(std::make_unique<Hog>());
  }
  const TuningReport report = tuner.report();
  std::printf("%s: drifts %d, trials %d, adopted %d, cost %.2f %%\n", model.c_str(), report.drifts, report.trials,
              report.adopted, 100 * report.spent_share);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "choice") return choice(argv[2], argc > 3 ? std::atoll(argv[3]) : 500, argc > 4 ? argv[4] : "fixed");
  if (what == "hooks") return hooks(argv[2]);
  if (what == "hog") return hog(argv[2], argc > 3 ? std::atoll(argv[3]) : 300, argc > 4 ? std::atoi(argv[4]) : 1);
  std::fprintf(stderr, "tuner_bench choice MODEL [STEPS [free]] | hooks MODEL | hog MODEL [STEPS [COPIES]]\n");
  return 2;
}
