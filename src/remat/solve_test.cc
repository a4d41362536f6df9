#include "remat/solve.h"

#include <gtest/gtest.h>

#include <chrono>

#include "remat/bound.h"
#include "remat/exact.h"
#include "remat/remat_testing.h"
#include "remat/sequence.h"
#include "tests/remat/traces.h"

namespace neap::remat {
namespace {

constexpr Method kMethods[] = {Method::kOracle,   Method::kGreedy,     Method::kDtr,
                               Method::kStoreAll, Method::kEveryLayer, Method::kSqrt};

std::int64_t eager_peak(const Problem& p) { return replay(p, eager_schedule(p)).peak_bytes; }

void expect_sound(const Problem& p, const Answer& a) {
  const Replay r = replay(p, a.schedule);
  ASSERT_EQ(r.error, "");
  EXPECT_EQ(r.peak_bytes, a.peak_bytes);
  EXPECT_DOUBLE_EQ(r.total_ms, a.total_ms);
  EXPECT_EQ(a.feasible, a.peak_bytes <= p.budget);
  EXPECT_LE(a.min_budget_bytes, a.peak_bytes);
  EXPECT_GE(a.gap, 0);
  if (a.optimal) {
    EXPECT_EQ(a.gap, 0);
  }
  if (!a.feasible) {
    EXPECT_GT(a.min_budget_bytes, p.budget);
    EXPECT_FALSE(a.optimal);
  }
}

// The least time over all sequences with at most `extra` re-runs; negative: none fits.
class BruteForce {
 public:
  BruteForce(const Problem& problem, std::size_t extra) : p_(problem), length_(problem.ops.size() + extra) {
    extend(0);
  }
  double best = -1;

 private:
  void extend(std::uint32_t ran) {
    if (ran + 1 == 1U << p_.ops.size()) look();
    if (runs_.size() == length_) return;
    for (OpIndex i = 0; i < p_.ops.size(); ++i) {
      const bool has_run = (ran >> i & 1U) != 0;
      if (has_run && !p_.ops[i].recompute) continue;
      bool is_ready = true;
      for (const TensorIndex t : p_.ops[i].inputs) {
        is_ready = is_ready && (p_.tensors[t].op == kNoOp || (ran >> p_.tensors[t].op & 1U) != 0);
      }
      if (!is_ready) continue;
      runs_.push_back(i);
      extend(ran | 1U << i);
      runs_.pop_back();
    }
  }
  void look() {
    const Replay r = replay(p_, with_frees(p_, runs_));
    if (r.error.empty() && r.peak_bytes <= p_.budget && (best < 0 || r.total_ms < best)) best = r.total_ms;
  }
  const Problem& p_;
  std::size_t length_;
  std::vector<OpIndex> runs_;
};

// Forward t0..t2, backward in reverse; times and bytes by chance.
Problem small_step(RandomStream& random) {
  Problem p{.tensors = {{"x", 1, kNoOp}}};
  const std::vector<std::vector<TensorIndex>> reads = {{0}, {1}, {2}, {2, 3}, {1, 4}};
  for (OpIndex i = 0; i < reads.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(random.below(50));
    const std::int64_t workspace = i == 2 ? static_cast<std::int64_t>(random.below(60)) : 0;
    p.tensors.push_back({"t" + std::to_string(i), bytes, i});
    p.ops.push_back({"op" + std::to_string(i),
                     1.0 + static_cast<double>(random.below(9)),
                     reads[i],
                     {i + 1},
                     workspace,
                     random.below(8) != 0});
  }
  p.keep = {5};
  return p;
}

TEST(Solve, SmallProblemsAgainstBruteForce) {
  RandomStream random(11);
  int tight = 0;
  for (int round = 0; round < 150; ++round) {
    Problem p = round % 3 == 0 ? random_problem(random, {.ops = 5, .most_outputs = 1, .reach = 3}) : small_step(random);
    p.budget = eager_peak(p) * (60 + static_cast<std::int64_t>(random.below(40))) / 100;
    const BruteForce brute(p, 3);
    const Answer a = solve(p);
    expect_sound(p, a);
    const Uses uses(p);
    const Bound bound = lower_bound(p, uses, p.budget, INT64_MAX / 2, 8);
    if (brute.best >= 0) {
      EXPECT_LE(bound.ms, brute.best + 1e-9) << round;
      EXPECT_LE(bound.bytes, p.budget);
      if (a.optimal) {
        EXPECT_LE(a.total_ms, brute.best + 1e-9) << round;
      }
      if (brute.best > a.baseline_ms) ++tight;
    }
    if (a.feasible && a.optimal && replay(p, a.schedule).runs <= p.ops.size() + 3) {
      EXPECT_NEAR(a.total_ms, brute.best, 1e-9) << round;
    }
  }
  EXPECT_GT(tight, 5);
}

TEST(Solve, EveryMethodReplaysOnRandomProblems) {
  RandomStream random(5);
  int feasible = 0;
  for (int round = 0; round < 36; ++round) {
    Problem p = random_problem(
        random, {.ops = 10 + static_cast<std::uint32_t>(random.below(90)), .most_outputs = 3, .fixed = 0.15});
    ASSERT_EQ(find_fault(p), "");
    p.budget = eager_peak(p) * (30 + static_cast<std::int64_t>(random.below(75))) / 100;
    Answer oracle;
    for (const Method method : kMethods) {
      const Answer a = solve(p, {.method = method, .is_fast = round % 2 == 0, .seconds = 60});
      expect_sound(p, a);
      if (method == Method::kOracle) oracle = a;
      if (a.feasible) {
        EXPECT_TRUE(oracle.feasible);
        EXPECT_LE(oracle.total_ms, a.total_ms * (1 + 1e-9));
        ++feasible;
      }
      EXPECT_LE(oracle.min_budget_bytes, a.min_budget_bytes);
    }
  }
  EXPECT_GT(feasible, 50);
}

TEST(Solve, ReachesTheMinimumThatItNames) {
  for (const char* name : {"resnet32", "unet", "transformer"}) {
    Problem p = make_trace(name, 0.5);
    p.budget = 0;
    const Answer none = solve(p, {.seconds = 60});
    EXPECT_FALSE(none.feasible);
    p.budget = none.min_budget_bytes;
    const Answer least = solve(p, {.seconds = 60});
    expect_sound(p, least);
    EXPECT_TRUE(least.feasible) << name;
  }
}

TEST(Solve, TheSameAnswerTwice) {
  Problem p = make_trace("inception", 0.3);
  p.budget = eager_peak(p) * 3 / 10;
  const SolveOptions options{.seconds = 1000};
  EXPECT_EQ(solve(p, options).schedule, solve(p, options).schedule);
}

TEST(Solve, EverythingFitsIsOptimal) {
  Problem p = make_trace("resnet32");
  p.budget = eager_peak(p);
  const Answer a = solve(p, {.wants_minimum = false});
  EXPECT_TRUE(a.feasible);
  EXPECT_TRUE(a.optimal);
  EXPECT_EQ(a.gap, 0);
  EXPECT_DOUBLE_EQ(a.total_ms, a.baseline_ms);
}

TEST(Solve, NothingToDo) {
  for (const Method method : kMethods) {
    const Answer a = solve(Problem{.budget = 0}, {.method = method});
    EXPECT_TRUE(a.feasible);
    EXPECT_TRUE(a.optimal);
    EXPECT_TRUE(a.schedule.empty());
    const Answer b = solve(Problem{.budget = 9, .tensors = {{"x", 10, kNoOp}}}, {.method = method});
    EXPECT_FALSE(b.feasible);
    EXPECT_EQ(b.min_budget_bytes, 10);
  }
}

// A tensor that cannot be made again stays while something that was evicted depends on it.
TEST(Solve, KeepsWhatCannotBeMadeAgain) {
  Problem p{.tensors = {{"x", 1, kNoOp}, {"seed", 1, 0}, {"big", 50, 1}, {"u", 40, 2}, {"v", 40, 3}, {"w", 1, 4}},
            .ops = {{"draw", 1, {0}, {1}, 0, false},
                    {"spread", 1, {1}, {2}, 0, true},
                    {"f", 1, {2}, {3}, 0, true},
                    {"g", 1, {3}, {4}, 0, true},
                    {"h", 1, {2, 4}, {5}, 0, true}},
            .keep = {5}};
  p.budget = 93;  // big cannot stay while g runs: it must come from the seed again
  const Answer a = solve(p);
  expect_sound(p, a);
  EXPECT_TRUE(a.feasible);
  EXPECT_TRUE(a.optimal);
  EXPECT_EQ(a.total_ms, 6);
  const Answer dtr = solve(p, {.method = Method::kDtr});
  expect_sound(p, dtr);
  EXPECT_TRUE(dtr.feasible);
}

// Both are read before and after f, which leaves room for either: one is cheap and large, the other dear and small.
TEST(Solve, KeepsWhatIsDearAndSmall) {
  Problem p{.tensors = {{"x", 1, kNoOp}, {"cheap", 60, 0}, {"dear", 40, 1}, {"z", 1, 2}, {"turn", 0, 3}, {"end", 1, 4}},
            .ops = {{"a", 1, {0}, {1}, 0, true},
                    {"b", 9, {0}, {2}, 0, true},
                    {"c", 1, {1, 2}, {3}, 0, true},
                    {"f", 1, {3}, {4}, 70, true},
                    {"g", 1, {1, 2, 4}, {5}, 0, true}},
            .keep = {5}};
  p.budget = 142;
  const Answer a = solve(p);
  expect_sound(p, a);
  EXPECT_EQ(a.total_ms, 14);  // a runs again, b does not
  EXPECT_TRUE(a.optimal);
}

// What the figures of bench/REMAT.md rest on, in small.
TEST(Solve, FasterAndSmallerThanDtrOnTraces) {
  for (const std::string& name : trace_names()) {
    if (name == "chain") continue;
    Problem p = make_trace(name, 0.5);
    const std::int64_t peak = eager_peak(p);
    for (const int share : {50, 30}) {
      p.budget = peak * share / 100;
      const Answer dtr = solve(p, {.method = Method::kDtr, .seconds = 2});
      const Answer ours = solve(p, {.seconds = 2});
      expect_sound(p, dtr);
      expect_sound(p, ours);
      EXPECT_LE(ours.min_budget_bytes, dtr.min_budget_bytes) << name;
      if (dtr.feasible) {
        EXPECT_LE(ours.total_ms, dtr.total_ms * (1 + 1e-9)) << name << " at " << share;
      }
      if (dtr.feasible && dtr.total_ms > 1.25 * dtr.baseline_ms) {
        EXPECT_LE(ours.total_ms, 0.95 * dtr.total_ms) << name << " at " << share;
      }
    }
  }
}

TEST(Solve, FastEnoughToPlanWhileTraining) {
  Problem p = make_trace("resnet32", 4);
  ASSERT_GT(p.ops.size(), 800U);
  p.budget = eager_peak(p) / 2;
  const auto start = std::chrono::steady_clock::now();
  const Answer a = solve(p, {.is_fast = true, .wants_minimum = false});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(a.feasible);
  EXPECT_LT(took.count(), 5);  // a hundred times what it takes undisturbed
}

}  // namespace
}  // namespace neap::remat
