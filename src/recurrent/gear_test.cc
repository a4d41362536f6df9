#include "recurrent/gear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "neap/error.h"
#include "recurrent/sequence_testing.h"
#include "recurrent/tapes_testing.h"

namespace neap {
namespace {

constexpr CellKind kKinds[] = {CellKind::kLstm, CellKind::kGru, CellKind::kTanh, CellKind::kRelu};
const std::vector<Gear> kGears = {Gear::rolled(),    Gear::unrolled(1),  Gear::unrolled(2),
                                  Gear::unrolled(4), Gear::unrolled(99), Gear::whole(),
                                  Gear::hybrid(1),   Gear::hybrid(6),    Gear::hybrid(99)};

void expect_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << where;
}

std::vector<SequenceCase> cases() {
  std::vector<SequenceCase> out;
  for (const CellKind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      for (const bool is_given : {false, true}) {
        out.push_back({.kind = kind, .reverse = reverse, .has_lengths = is_given, .has_state = is_given});
        out.push_back({.kind = kind, .reverse = reverse, .has_lengths = !is_given, .has_state = is_given});
      }
    }
    out.push_back({.kind = kind, .steps = 1, .batch = 1, .input = 1, .hidden = 1, .has_bias = false});
    out.push_back({.kind = kind, .steps = 5, .batch = 1, .input = 70, .hidden = 65, .has_state = true});
  }
  return out;
}

TEST(Gear, EveryGearAndGatePolicyGivesRolledsBits) {
  for (const SequenceCase& c : cases()) {
    TapedSequence sequence(c);
    const auto rolled = sequence.run(tape_of(c.steps, c.steps, Gear::rolled(), true));
    for (const Gear& gear : kGears) {
      for (const bool keeps : {true, false}) {
        const std::string where = gear.text() + (keeps ? " keep" : " recompute") + " kind " +
                                  std::to_string(static_cast<int>(c.kind)) + (c.reverse ? " reverse" : "");
        expect_bits(sequence.run(tape_of(c.steps, c.steps, gear, keeps)), rolled, where);
        expect_bits(sequence.run(tape_of(c.steps, 4, gear, keeps)), rolled, where + " in chunks of 4");
      }
    }
  }
}

// Another gear and gate policy from every boundary of chunks on.
TEST(Gear, EverySwitchPointGivesRolledsBits) {
  for (const CellKind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      SequenceCase c = {.kind = kind, .steps = 11, .batch = 2, .hidden = 33, .reverse = reverse, .has_state = true};
      TapedSequence sequence(c);
      const auto rolled = sequence.run(tape_of(c.steps, c.steps, Gear::rolled(), true));
      for (std::size_t at = 1; at < 4; ++at) {
        for (std::size_t g = 0; g < kGears.size(); ++g) {
          Tape tape = tape_of(c.steps, 3, kGears[g], true);
          for (std::size_t k = at; k < tape.size(); ++k) {
            tape[k].gear = kGears[(g + k) % kGears.size()];
            tape[k].keeps_gates = k % 2 == 0;
          }
          EXPECT_GT(switches_in(tape), 0);
          expect_bits(sequence.run(tape), rolled, kGears[g].text() + " until chunk " + std::to_string(at));
        }
      }
    }
  }
}

// A length beyond the last step is that of the sequence, one below zero is none: in every gear, there and back.
TEST(Gear, LengthsOutsideTheSequenceAreCut) {
  for (const CellKind kind : kKinds) {
    for (const bool reverse : {false, true}) {
      const SequenceCase c = {.kind = kind, .steps = 7, .hidden = 9, .reverse = reverse, .has_lengths = true};
      TapedSequence cut(c);
      cut.lengths = {7, 0, 4};
      TapedSequence outside(c);
      outside.lengths = {INT32_MAX, INT32_MIN, 4};
      for (const Profile& p : all_profiles()) {
        const auto want = cut.run(tape_of(7, 3, p.gear, p.keeps_gates));
        expect_bits(outside.run(tape_of(7, 3, p.gear, p.keeps_gates)), want, p.gear.text());
      }
    }
  }
}

// One step, one unit, one row, pieces longer than the sequence.
TEST(Gear, TheSmallestSequencesRun) {
  for (const CellKind kind : kKinds) {
    for (const std::int64_t steps : {1, 2}) {
      TapedSequence s({.kind = kind, .steps = steps, .batch = 1, .input = 1, .hidden = 1, .has_state = true});
      const auto rolled = s.run(tape_of(steps, steps, Gear::rolled(), true));
      for (const Tape& tape : all_tapes(steps)) expect_bits(s.run(tape), rolled, text_of(tape));
    }
  }
}

// Workspace is booked for pieces of `most` steps: longer ones are cut, to the same bits, and take less.
TEST(Gear, PiecesKeepWithinTheirWorkspace) {
  for (const CellKind kind : kKinds) {
    SequenceCase c = {.kind = kind, .steps = 16, .batch = 4};
    const auto whole = TapedSequence(c).run(tape_of(16, 16, Gear::whole(), false));
    ChunkShape s = {.kind = kind, .steps = 16, .batch = 4, .input = 5, .hidden = 37, .keeps_gates = false};
    std::int64_t last = 0;
    for (const std::int64_t most : {1, 2, 8, 16}) {
      c.most = s.most = most;
      expect_bits(TapedSequence(c).run(tape_of(16, 16, Gear::whole(), false)), whole, "most");
      EXPECT_GT(forward_workspace(s) + backward_workspace(s), last);
      last = forward_workspace(s) + backward_workspace(s);
    }
  }
}

// d loss / d values along a direction, by backward and by the difference of two forward passes, both by this tape.
void expect_slope(TapedSequence& sequence, const Tape& tape, std::vector<float>& values,
                  const std::vector<float>& gradient, std::uint64_t key) {
  constexpr float kStep = 1e-2F;
  const std::vector<float> before = values;
  std::vector<float> direction(values.size());
  RandomStream random(key);
  double got = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    direction[i] = static_cast<float>(random.normal() / std::sqrt(static_cast<double>(values.size())));
    got += double{direction[i]} * gradient[i];
  }
  const auto loss_at = [&](float step) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = before[i] + step * direction[i];
    return sequence.loss(tape);
  };
  const double want = (loss_at(kStep) - loss_at(-kStep)) / (2 * double{kStep});
  values = before;
  ASSERT_NEAR(got, want, 1e-3 * (1 + std::abs(want))) << text_of(tape) << " leaf " << key;
}

// Every profile, gate policy and switch point; relu apart, whose kinks differences do not like.
TEST(Gear, GradientsHoldInEveryProfileAndAcrossEverySwitch) {
  const OneThread one;
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kTanh}) {
    for (const bool reverse : {false, true}) {
      TapedSequence s({.kind = kind,
                       .steps = 6,
                       .batch = 2,
                       .input = 3,
                       .hidden = 4,
                       .reverse = reverse,
                       .has_lengths = reverse,
                       .has_state = true});
      s.dh_n = s.h0;
      if (kind == CellKind::kLstm) s.dc_n = s.c0;
      for (const Tape& tape : all_tapes(6)) {
        s.run(tape);
        expect_slope(s, tape, s.x, std::vector<float>(s.dx()), 1);
        expect_slope(s, tape, s.w_ih, std::vector<float>(s.dw_ih()), 2);
        expect_slope(s, tape, s.w_hh, std::vector<float>(s.dw_hh()), 3);
        expect_slope(s, tape, s.b_ih, std::vector<float>(s.db_ih()), 4);
        expect_slope(s, tape, s.b_hh, std::vector<float>(s.db_hh()), 5);
        expect_slope(s, tape, s.h0, std::vector<float>(s.dh0()), 6);
        if (kind == CellKind::kLstm) expect_slope(s, tape, s.c0, std::vector<float>(s.dc0()), 7);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Gear, PiecesAreTheSameOnTheWayBack) {
  for (const Gear& gear : kGears) {
    for (const bool reverse : {false, true}) {
      for (const std::int64_t most : {0, 1, 3}) {
        const ChunkShape s = {.steps = 13, .reverse = reverse, .start = 2, .most = most};
        std::vector<std::int64_t> ends;
        for (std::int64_t from = 0; from < s.steps; from = ends.back()) ends.push_back(piece_from(gear, s, from).to);
        for (std::int64_t to = s.steps; to > 0; to = piece_to(gear, s, to).from) {
          ASSERT_EQ(ends.back(), to) << gear.text();
          ends.pop_back();
          EXPECT_LE(piece_to(gear, s, to).steps(), s.longest());
        }
        EXPECT_TRUE(ends.empty());
      }
    }
  }
}

TEST(Gear, HybridUnrollsTheFirstStepsOfTheSequence) {
  const ChunkShape s = {.steps = 8, .start = 8};
  EXPECT_EQ(piece_from(Gear::hybrid(12), s, 0).to, 4);
  EXPECT_EQ(piece_from(Gear::hybrid(12), s, 4).to, 5);
  EXPECT_EQ(piece_from(Gear::hybrid(8), s, 0).to, 1);
}

TEST(Gear, TextThereAndBack) {
  for (const Gear& gear : kGears) {
    EXPECT_EQ(parse_gear(gear.text()), gear);
    EXPECT_EQ(Gear::of(gear.code()), gear);
  }
  EXPECT_EQ(Gear::whole().code(), 0U);
  EXPECT_EQ(parse_gears("rolled,unrolled:2,rolled").size(), 2U);
  for (const char* bad : {"", "fast", "unrolled", "unrolled:", "unrolled:0", "unrolled:-3", "hybrid:x", "unrolled:2x",
                          "unrolled:99999999999"}) {
    EXPECT_THROW(parse_gear(bad), UserError) << bad;
  }
  EXPECT_THROW(parse_gears("rolled,,whole"), UserError);
}

}  // namespace
}  // namespace neap
