// The tuner on a machine that does other things too, by made-up times: what it costs, how good its choice is, how soon
// it follows.
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "optimize/fuse_elementwise.h"
#include "train/tuner_testing.h"

namespace neap {
namespace {

constexpr double kNodeMs = 10;
constexpr std::int64_t kSteps = 500;
const TuningOptions kHundredth{.subgraphs = {.initial_granularity = 1, .performance_threshold = 1e-9},
                               .rl_training_epochs = 1,
                               .trial_share = 0.01};

// Student's t with three degrees of freedom: one in fifty lies beyond 4.5.
double heavy_tailed(RandomStream& random) {
  const double z = random.normal();
  double squares = 0;
  for (int i = 0; i < 3; ++i) {
    const double each = random.normal();
    squares += each * each;
  }
  return z / std::sqrt(squares / 3);
}

// A machine: what fused calls take here, and how its clock jumps. Of every step, of every call, and in bursts.
struct Machine {
  explicit Machine(std::uint64_t number) : seed(number), random(number) { noise = 0.03 + 0.07 * random.uniform(); }

  // Without noise. What a fused call takes is another thing in each of them, from half of what it replaces to four
  // times that.
  double plain_ms(const Node& node) const {
    if (hog > 1) return kNodeMs * (is_fused(node) ? 3 + 0.5 * hog : is_short(node) ? hog : 1);
    if (!is_fused(node)) return kNodeMs;
    RandomStream own(hash_text(node.name, seed));
    return kFusedNodes * kNodeMs * std::exp2(3 * own.uniform() - 1);
  }
  double operator()(const Node& node) {
    const double burst = random.uniform() < 0.01 ? 1 + 2 * random.uniform() : 1;
    return last_ms = plain_ms(node) * slow * burst * std::exp(std::clamp(noise * heavy_tailed(random), -1.0, 1.0));
  }
  void next_step() { slow = std::exp(std::clamp(noise * heavy_tailed(random), -0.5, 1.0)); }

  // What waits for memory, and once instead of often where it is fused.
  static bool is_short(const Node& node) {
    return node.op->name == "mul" || node.op->name == "tanh" || node.op->name == "sigmoid";
  }

  static constexpr double kFusedNodes = 3;
  double hog = 1;  // how much longer memory takes
  std::uint64_t seed;
  RandomStream random;
  double noise = 0;
  double slow = 1;
  double last_ms = 0;
};

struct Outcome {
  double over = 0;     // the best of all, of its time, at the end
  double soon = 0;     // and fifty steps after the hog came
  double cost = 0;     // of the run: what trials have really taken
  double charged = 0;  // and what they were charged for
  std::string log;
};

double step_ms(const Graph& graph, const Machine& machine) {
  double out = 0;
  for (const Node& node : graph.nodes) out += machine.plain_ms(node);
  return out;
}

double best_ms(const Graph& settled, const Machine& machine) {
  const Pieces pieces(settled, ways_of({&kFusedElementwise}), kHundredth.subgraphs);
  double out = step_ms(settled, machine);
  for (const Actions& actions : {Actions{0, 1}, Actions{1, 0}, Actions{1, 1}}) {
    out = std::min(out, step_ms(pieces.rewritten(actions), machine));
  }
  return out;
}

// A run of so many steps; from step `hog_from` on something takes memory's bandwidth.
Outcome tuned_on(std::uint64_t seed, std::int64_t hog_from = kSteps) {
  Machine machine(seed);
  double usual_ms = 0;
  Outcome out;
  const auto made_up = [&](Effort effort) {
    const double steps = effort == Effort::kStart ? 0.8 : effort == Effort::kRehearse ? 1.3 : 0.1;
    out.cost += steps * usual_ms;
    return steps * usual_ms;
  };
  TunedNet net({&kFusedElementwise}, kHundredth, kSteps, nullptr, made_up);
  net.is_dry = true;
  const Graph& settled = net.base().graph();
  usual_ms = step_ms(settled, machine);
  double all_ms = 0;
  double current_ms = 0;
  net.before_step = [&](Stepper& stepper) {
    out.cost += std::max(0.0, step_ms(stepper.graph(), machine) - current_ms);
  };
  for (std::int64_t i = 0; i < kSteps; ++i) {
    if (i == hog_from) machine.hog = 4;
    machine.next_step();
    current_ms = step_ms(net.tuner->current().graph(), machine);
    usual_ms = current_ms;
    net.step([&](const Graph&, const Node& node) {
      all_ms += machine(node);
      return machine.last_ms;
    });
    if (i == hog_from + 49) out.soon = step_ms(net.tuner->current().graph(), machine) / best_ms(settled, machine) - 1;
  }
  out.over = step_ms(net.tuner->current().graph(), machine) / best_ms(settled, machine) - 1;
  out.cost /= all_ms;
  out.charged = net.tuner->report().spent_share;
  out.log = net.all_said();
  return out;
}

TEST(Tuner, OnNoisyMachinesStaysWithinItsShareAndNearTheBest) {
  constexpr int kMachines = 200;
  int near = 0;
  for (std::uint64_t seed = 0; seed < kMachines; ++seed) {
    const Outcome outcome = tuned_on(seed);
    EXPECT_LE(outcome.charged, 0.01) << "machine " << seed << "\n" << outcome.log;
    EXPECT_LE(outcome.cost, 0.01) << "machine " << seed << "\n" << outcome.log;
    near += outcome.over <= 0.03 ? 1 : 0;
  }
  EXPECT_GE(near, 190);
}

TEST(Tuner, OnNoisyMachinesFollowsAHogWithinFiftyStepsAndItsShare) {
  constexpr int kMachines = 100;
  int near = 0;
  for (std::uint64_t seed = 0; seed < kMachines; ++seed) {
    const Outcome outcome = tuned_on(seed, 200);
    EXPECT_LE(outcome.charged, 0.01) << "machine " << seed << "\n" << outcome.log;
    EXPECT_LE(outcome.cost, 0.01) << "machine " << seed << "\n" << outcome.log;
    near += outcome.soon <= 0.03 ? 1 : 0;
  }
  EXPECT_GE(near, 95);
}

}  // namespace
}  // namespace neap
