#include "remat/problem.h"

#include <gtest/gtest.h>

#include <cmath>

#include "remat/remat_testing.h"
#include "remat/sequence.h"

namespace neap::remat {
namespace {

constexpr Step run(OpIndex op) { return {StepKind::kRun, op}; }
constexpr Step drop(TensorIndex t) { return {StepKind::kFree, t}; }

// x (10) -> a: y (20), z (5) -> b: u (7, workspace 3) -> c reads y and u.
Problem small() {
  return {.budget = 100,
          .tensors = {{"x", 10, kNoOp}, {"y", 20, 0}, {"z", 5, 0}, {"u", 7, 1}, {"v", 1, 2}},
          .ops = {{"a", 1, {0}, {1, 2}, 0, true}, {"b", 2, {2}, {3}, 3, true}, {"c", 4, {1, 3}, {4}, 0, false}},
          .keep = {4}};
}

TEST(Replay, CountsWhatIsResidentTheOutputsAndTheWorkspace) {
  const Replay r = replay(small(), {run(0), run(1), run(2)});
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.peak_bytes, 10 + 20 + 5 + 7 + 3);
  EXPECT_EQ(r.total_ms, 7);
  EXPECT_EQ(r.runs, 3U);
}

TEST(Replay, ARerunBringsBackOnlyWhatIsAbsent) {
  const Replay r = replay(small(), {run(0), drop(1), run(1), drop(2), run(0), drop(2), run(2)});
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.peak_bytes, 10 + 20 + 5 + 7);  // at the re-run of a, and never with b's workspace and y
  EXPECT_EQ(r.total_ms, 8);
}

TEST(Replay, EagerFreesAtTheLastUse) {
  EXPECT_EQ(eager_schedule(small()), (std::vector<Step>{run(0), run(1), drop(2), run(2), drop(1), drop(3)}));
}

TEST(Replay, NamesWhatIsWrong) {
  const auto error = [](const std::vector<Step>& schedule) { return replay(small(), schedule).error; };
  EXPECT_EQ(error({run(0), run(1)}), "op 'c' has not run");
  EXPECT_EQ(error({run(1)}), "step 0: op 'b' reads 'z', which is not resident");
  EXPECT_EQ(error({run(0), drop(0)}), "step 1: input 'x' is freed");
  EXPECT_EQ(error({drop(1)}), "step 0: 'y' is freed, but is not resident");
  EXPECT_EQ(error({run(0), run(1), run(2), run(2)}), "step 3: op 'c' must not run again");
  EXPECT_EQ(error({run(0), run(1), run(2), drop(4)}), "'v' is not resident at the end");
  EXPECT_EQ(error({run(3)}), "step 0: there is no op 3");
  EXPECT_EQ(error({drop(5)}), "step 0: there is no tensor 5");
}

TEST(FindFault, NamesWhatIsWrong) {
  EXPECT_EQ(find_fault(small()), "");
  const auto fault = [](auto change) {
    Problem p = small();
    change(p);
    return find_fault(p);
  };
  EXPECT_EQ(fault([](Problem& p) { p.ops[0].inputs = {3}; }), "op 'a' reads 'u' before it is made");
  EXPECT_EQ(fault([](Problem& p) { p.ops[0].inputs = {9}; }), "op 'a' reads tensor 9, which there is not");
  EXPECT_EQ(fault([](Problem& p) { p.ops[0].inputs = {0, 0}; }), "op 'a' lists an input twice");
  EXPECT_EQ(fault([](Problem& p) { p.ops[1].outputs = {1}; }), "op 'b' makes 'y', which is there already");
  EXPECT_EQ(fault([](Problem& p) { p.ops[1].outputs.clear(); }), "op 'c' reads 'u' before it is made");
  EXPECT_EQ(fault([](Problem& p) { p.ops[1].ms = NAN; }), "op 'b': nan ms is no time");
  EXPECT_EQ(fault([](Problem& p) { p.ops[1].ms = -1; }), "op 'b': -1 ms is no time");
  EXPECT_EQ(fault([](Problem& p) { p.ops[1].workspace = -1; }), "op 'b': a workspace of -1 bytes");
  EXPECT_EQ(fault([](Problem& p) { p.tensors[1].bytes = -5; }), "'y' has -5 bytes");
  EXPECT_EQ(fault([](Problem& p) { p.tensors[1].bytes = p.tensors[2].bytes = std::int64_t{1} << 61; }),
            "with 'z' the sizes add up to more than 2^62 bytes");
  EXPECT_EQ(fault([](Problem& p) { p.keep = {7}; }), "tensor 7 is to be kept, which there is not");
  EXPECT_EQ(fault([](Problem& p) { p.budget = -1; }), "the budget of -1 bytes is negative");
}

// The profile that moves keep up to date is the one that a replay sees, after any moves and after undoing them.
TEST(Sequence, MovesKeepTheProfile) {
  RandomStream random(3);
  for (int round = 0; round < 200; ++round) {
    const Problem p = random_problem(random, {.ops = 25, .fixed = 0});
    const Uses uses(p);
    std::vector<OpIndex> all;
    for (OpIndex i = 0; i < p.ops.size(); ++i) all.push_back(i);
    Sequence sequence(p, uses, all, 3);
    const std::int64_t eager = sequence.peak();
    EXPECT_EQ(eager, replay(p, with_frees(p, all)).peak_bytes);
    for (int move = 0; move < 60; ++move) {
      const auto slot = static_cast<Slot>(random.below(sequence.slots() - 1));
      const auto op = static_cast<OpIndex>(random.below(p.ops.size()));
      if (const OpIndex there = sequence.op_at(slot); there != kNoOp) {
        if (!sequence.is_first_run(there, slot)) sequence.remove_run(slot);
      } else if (op * 4 + 3 < slot) {  // has run before
        sequence.add_run(op, slot);
      }
      const Replay r = replay(p, with_frees(p, sequence.runs()));
      ASSERT_EQ(r.error, "");
      ASSERT_EQ(sequence.peak(), r.peak_bytes) << "round " << round << " move " << move;
      ASSERT_NEAR(sequence.ms(), r.total_ms, 1e-9);
    }
    sequence.undo_to(0);
    EXPECT_EQ(sequence.runs(), all);
    EXPECT_EQ(sequence.peak(), eager);
  }
}

}  // namespace
}  // namespace neap::remat
