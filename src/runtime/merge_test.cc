#include "runtime/merge.h"

#include <gtest/gtest.h>

#include <array>
#include <list>

namespace neap {
namespace {

// A step made of adds (out = a + b) over 64 floats at given places of a small arena.
class Step {
 public:
  void add(int a, int b, int out) {
    places_.push_back({.in = {at(a), at(b)}, .out = {at(out)}});
    const TensorType type{DType::kF32, {64}};
    calls_.emplace_back(BoundCall{.call = {.op = &op_named("add"), .inputs = {type, type}, .outputs = {type}},
                                  .buffers = {.inputs = places_.back().in, .outputs = places_.back().out}});
  }
  void stop() { calls_.emplace_back(); }

  std::vector<std::vector<std::size_t>> merged(const MergeRule& rule) const {
    std::vector<std::vector<std::size_t>> out;
    for (const MergedCalls& m : merge_calls(calls_, {&rule, 1})) {
      EXPECT_EQ(m.calls.size() > 1, static_cast<bool>(m.run));
      out.push_back(m.calls);
    }
    return out;
  }

 private:
  struct Places {
    std::array<const std::byte*, 2> in;
    std::array<std::byte*, 1> out;
  };
  std::byte* at(int place) { return memory_.data() + place * 128; }  // half a tensor

  std::array<std::byte, 4096> memory_{};
  std::list<Places> places_;
  std::vector<std::optional<BoundCall>> calls_;
};

bool any(const BoundCall& /*call*/) { return true; }
bool any_more(BoundCalls /*calls*/, const BoundCall& /*next*/) { return true; }
bool reads_last(BoundCalls calls, const BoundCall& next) {
  return next.buffers.inputs[0] == calls.back()->buffers.outputs[0];
}
MergedRun nothing(BoundCalls /*calls*/) {
  return [](Stream&) {};
}

using Groups = std::vector<std::vector<std::size_t>>;
constexpr MergeRule kApart = {.starts = any, .takes = any_more, .make = nothing, .most = 3};
constexpr MergeRule kChain = {.starts = any, .takes = reads_last, .make = nothing, .most = 2, .by_element = true};

TEST(MergeCalls, TakesWhatTouchesNothingInCommon) {
  Step step;
  step.add(0, 2, 4);
  step.add(0, 2, 6);  // reads the same
  step.add(6, 2, 8);  // reads what the second writes
  EXPECT_EQ(step.merged(kApart), (Groups{{0, 1}, {2}}));
}

TEST(MergeCalls, AChainMayWriteJustWhereItRead) {
  Step over;
  over.add(0, 2, 4);
  over.add(4, 6, 0);  // exactly over an operand of the first
  EXPECT_EQ(over.merged(kChain), (Groups{{0, 1}}));
  Step beside;
  beside.add(0, 2, 4);
  beside.add(4, 6, 1);  // half over one
  EXPECT_EQ(beside.merged(kChain), (Groups{{0}, {1}}));
}

TEST(MergeCalls, WhatIsNotWrittenAnyMoreIsInNobodysWay) {
  Step step;
  step.add(0, 2, 4);
  step.add(4, 6, 5);  // half over what the first would have written
  EXPECT_EQ(step.merged(kChain), (Groups{{0}, {1}}));
  MergeRule elides = kChain;
  elides.elides_first = true;
  EXPECT_EQ(step.merged(elides), (Groups{{0, 1}}));
  Step reads;
  reads.add(0, 2, 4);
  reads.add(4, 6, 1);  // half over what the first reads
  EXPECT_EQ(reads.merged(elides), (Groups{{0}, {1}}));
}

TEST(MergeCalls, MovesAcrossOthersThatDoNotMind) {
  Step step;
  step.add(0, 2, 4);
  step.add(10, 12, 14);
  step.add(4, 6, 8);
  EXPECT_EQ(step.merged(kChain), (Groups{{0, 2}, {1}}));
  MergeRule last = kChain;
  last.at = MergeRule::At::kLast;
  EXPECT_EQ(step.merged(last), (Groups{{1}, {0, 2}}));
}

TEST(MergeCalls, DoesNotMoveAcrossOneThatDoes) {
  Step writes;  // the second writes what the third reads
  writes.add(0, 2, 4);
  writes.add(10, 12, 6);
  writes.add(4, 6, 8);
  EXPECT_EQ(writes.merged(kChain), (Groups{{0}, {1}, {2}}));
  MergeRule last = kChain;
  last.at = MergeRule::At::kLast;
  EXPECT_EQ(writes.merged(last), (Groups{{1}, {0, 2}}));  // the first may wait for it
  Step reads;                                             // the second reads what the third writes
  reads.add(0, 2, 4);
  reads.add(8, 12, 14);
  reads.add(4, 6, 8);
  EXPECT_EQ(reads.merged(kChain), (Groups{{0}, {1}, {2}}));
}

TEST(MergeCalls, NothingMovesAcrossATransfer) {
  Step step;
  step.add(0, 2, 4);
  step.stop();
  step.add(4, 6, 8);
  EXPECT_EQ(step.merged(kChain), (Groups{{0}, {1}, {2}}));
}

TEST(MergeCalls, KeepsToTheRulesReach) {
  Step step;
  step.add(0, 2, 4);
  step.add(10, 12, 14);
  step.add(10, 12, 16);
  step.add(4, 6, 8);
  MergeRule near = kChain;
  near.reach = 1;
  EXPECT_EQ(step.merged(near), (Groups{{0}, {1}, {2}, {3}}));
}

}  // namespace
}  // namespace neap
