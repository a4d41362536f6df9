#include "train/carried.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/file_testing.h"
#include "core/random.h"
#include "graph/op.h"
#include "neap/layers.h"
#include "neap/recurrent.h"
#include "train/checkpoint.h"
#include "train/resume_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kInput = 5;
constexpr std::int64_t kHidden = 8;

// The mean of what an LSTM puts out, over all steps.
class Net final : public Model {
 public:
  Net(std::int64_t steps, bool bidirectional = false) : steps_(steps), bidirectional_(bidirectional) {}
  std::string name() const override { return "net"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, steps_, kInput});
    const Value time_first = g("transpose", {x}, {{"perm", Ints{1, 0, 2}}});
    const RecurrentOptions options{.layers = 2, .chunk = 4, .bidirectional = bidirectional_};
    const Value y = lstm(g, time_first, kHidden, options).y;
    const Value target = g("mul", {y, g.scalar(0)});
    g.output("loss", g("mse", {y, target}));
  }

 private:
  std::int64_t steps_;
  bool bidirectional_;
};

// Row r of a batch goes on with what row r of the batch before left off.
class Streams {
 public:
  explicit Streams(std::int64_t steps) : steps_(steps) {}
  void operator()(std::string_view /*input*/, std::span<std::byte> dst) {
    std::vector<float> values(dst.size() / sizeof(float));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      const std::int64_t row = i / (steps_ * kInput);
      const std::int64_t at = done_ * steps_ * kInput + i % (steps_ * kInput);
      RandomStream random(mix(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(at)));
      values[static_cast<std::size_t>(i)] = static_cast<float>(random.normal()) * scale;
    }
    ++done_;
    std::memcpy(dst.data(), values.data(), dst.size());
  }
  float scale = 1;

 private:
  std::int64_t steps_;
  std::int64_t done_ = 0;
};

TrainOptions options_for(bool carry, double lr = 0) {
  TrainOptions out{.batch = kBatch, .carry_state = carry, .threads = 1};
  out.optimizer = {.name = "sgd", .lr = lr, .momentum = 0, .weight_decay = 0};
  return out;
}

// Without learning, three batches of 8 steps with their state carried on are one of 24.
TEST(Carried, ForwardGoesOnWhereItEnded) {
  Trainer whole(std::make_shared<Net>(24), options_for(false), Streams(24));
  const float expected = whole.advance().loss;
  const auto mean_of = [](bool carry) {
    Trainer pieces(std::make_shared<Net>(8), options_for(carry), Streams(8));
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += pieces.advance().loss;
    return sum / 3;
  };
  EXPECT_NEAR(mean_of(true), expected, 1e-6 * expected);
  EXPECT_GT(std::abs(mean_of(false) - expected), 1e-3 * expected);
}

TEST(Carried, EveryPlanAndGearGivesTheSameBits) {
  const auto hash = [](const std::string& budget, const std::string& gear) {
    TrainOptions options = options_for(true, 0.1);
    options.budget = budget;
    options.recurrent.gear = gear;
    options.synchronous_planning = true;
    Trainer trainer(std::make_shared<Net>(16), options, Streams(16));
    for (int i = 0; i < 5; ++i) trainer.advance();
    return trainer.summary().weights_hash;
  };
  const std::string stored = hash("", "whole");
  EXPECT_EQ(hash("min", "adaptive"), stored);
  EXPECT_EQ(hash("", "rolled"), stored);
}

TEST(Carried, WaitsInFewerBitsAndComesBackAsTheyAllow) {
  const auto run = [](const std::string& tolerance, const std::string& level) {
    TrainOptions options = options_for(true);
    options.precision.tolerance = tolerance;
    options.precision.carried = level;
    Trainer trainer(std::make_shared<Net>(8), options, Streams(8));
    for (int i = 0; i < 4; ++i) trainer.advance();
    return trainer.summary();
  };
  const auto rows = [](const Summary& s) {
    std::vector<StoredTensorReport> out;
    for (const StoredTensorReport& row : s.stored) {
      if (row.layer == "carried state") out.push_back(row);
    }
    return out;
  };
  EXPECT_TRUE(rows(run("exact", "")).empty());
  const auto bf16 = rows(run("default", ""));
  const auto int8 = rows(run("default", "int8"));
  const auto int4 = rows(run("default", "int4"));
  ASSERT_EQ(bf16.size(), 4U);  // h and c of two layers
  ASSERT_EQ(int4.size(), 4U);
  EXPECT_EQ(bf16[0].level, "bf16");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(bf16[i].error, 0);
    EXPECT_LT(bf16[i].error, 2e-5);
    EXPECT_LT(bf16[i].error, int8[i].error);
    EXPECT_LT(int8[i].error, int4[i].error);
  }
}

TEST(Carried, ResumesToTheSameBits) {
  for (const char* tolerance : {"exact", "default"}) {
    TrainOptions options{.model = "lstm-lm:hidden=32,vocab=64",
                         .steps = 6,
                         .batch = 4,
                         .accumulate = 2,
                         .carry_state = true,
                         .length = 16,
                         .seed = 3,
                         .threads = 1};
    options.precision.tolerance = tolerance;
    testing::expect_same_bits_resumed(options);
  }
}

// What waits between two batches is state like any other: within the arena, the budget and the peak.
TEST(Carried, WaitsWithinTheBudget) {
  const auto run = [](bool carry, const std::string& level, std::int64_t parts) {
    TrainOptions options = options_for(carry);
    options.batch = 32 * parts;
    options.accumulate = parts;
    options.budget = "min";
    options.guard = true;
    if (!level.empty()) options.precision.tolerance = "default";
    options.precision.carried = level;
    Trainer trainer(std::make_shared<Net>(8), options, Streams(8));
    for (int i = 0; i < 2; ++i) trainer.advance();
    return trainer.summary();
  };
  constexpr std::int64_t kState = 4 * 32 * kHidden;  // h and c of two layers
  const std::int64_t without = run(false, "", 1).state_bytes;
  const Summary exact = run(true, "", 1);
  EXPECT_EQ(exact.state_bytes - without, kState * 4);
  EXPECT_LE(exact.peak_bytes, exact.min_budget_bytes);
  EXPECT_EQ(exact.violations, 0);
  EXPECT_EQ(run(true, "", 2).state_bytes - run(false, "", 2).state_bytes, kState * 4 * 2);
  // A line for the byte that says how it is stored.
  EXPECT_EQ(run(true, "bf16", 1).state_bytes - without, kState * 2 + 4 * 64);
}

// A cell that only adds up: its state grows past what fp16 holds.
TEST(Carried, WhatTheLevelCannotHoldIsKeptInBf16AndReported) {
  class Growing final : public Model {
   public:
    std::string name() const override { return "growing"; }
    void build(Builder& g, const BuildRequest& request) const override {
      const Value x = g.input("x", DType::kF32, {request.batch, 4, kInput});
      const Value y = rnn(g, g("transpose", {x}, {{"perm", Ints{1, 0, 2}}}), kHidden, {.activation = "relu"}).y;
      g.output("loss", g("mse", {y, g("mul", {y, g.scalar(0)})}));
    }
  };
  TrainOptions options = options_for(true);
  options.precision.tolerance = "default";
  options.precision.carried = "fp16";
  Streams data(4);
  data.scale = 1e6F;
  Trainer trainer(std::make_shared<Growing>(), options, data);
  const std::string note = trainer.advance().note;
  EXPECT_NE(note.find("carried.h0.part0"), std::string::npos) << note;
  EXPECT_NE(note.find("kept in bf16"), std::string::npos) << note;
  EXPECT_EQ(trainer.summary().stored.back().level, "bf16");
  EXPECT_TRUE(std::isfinite(trainer.advance().loss));
}

// The hash of a checkpoint says that it is whole, not that it was written here.
TEST(Carried, RefusesRoomsThatHoldNothingKnown) {
  const testing::TempDir folder;
  TrainOptions options{
      .model = "lstm-lm:hidden=32,vocab=64", .batch = 2, .carry_state = true, .length = 16, .threads = 1};
  options.precision.tolerance = "default";
  options.checkpoint = folder.path().string();
  {
    Trainer trainer(options);
    trainer.advance();
    trainer.checkpoint();
  }
  const auto spoil = [&](std::byte tag) {
    const Checkpoint was(folder.path());
    std::vector<SafeTensor> tensors = was.tensors().tensors();
    std::vector<std::byte> room;
    for (SafeTensor& t : tensors) {
      if (t.name != "carried.h0.part0") continue;
      room.assign(t.data.begin(), t.data.end());
      room.back() = tag;
      t.data = room;
    }
    ASSERT_FALSE(room.empty());
    write_checkpoint(folder.path(), was.info(), tensors);
  };
  options.resume = true;
  for (const int tag : {1, 7, 255}) {  // fp32 would be larger than the room
    spoil(static_cast<std::byte>(tag));
    Trainer trainer(options);
    testing::expect_user_error([&] { trainer.advance(); }, {"carried.h0.part0", "damaged"});
  }
  spoil(std::byte{3});
  EXPECT_TRUE(std::isfinite(Trainer(options).advance().loss));
}

TEST(Carried, RefusesWhatCannotBe) {
  const auto refused = [](const TrainOptions& options, std::shared_ptr<Model> model,
                          std::initializer_list<std::string_view> words) {
    testing::expect_user_error([&] { Trainer(model, options, Streams(8)); }, words);
  };
  refused(options_for(true), std::make_shared<Net>(8, true), {"--carry-state", "backwards"});
  TrainOptions level = options_for(true);
  level.precision.carried = "int3";
  level.precision.tolerance = "default";
  refused(level, std::make_shared<Net>(8), {"--carried-precision 'int3'"});
  level.precision.carried = "int8";
  level.precision.tolerance = "exact";
  refused(level, std::make_shared<Net>(8), {"--carried-precision int8", "--tolerance"});
  TrainOptions alone = options_for(false);
  alone.precision.carried = "bf16";
  alone.precision.tolerance = "default";
  refused(alone, std::make_shared<Net>(8), {"--carry-state"});
  TrainOptions without{.model = "mlp", .carry_state = true};
  testing::expect_user_error([&] { Trainer trainer(without); }, {"--carry-state", "no recurrent layer"});
  TrainOptions varying{.model = "lstm-lm:hidden=16,vocab=64", .batch = 2, .length = 32, .lengths = "varying"};
  varying.carry_state = true;
  testing::expect_user_error([&] { Trainer trainer(varying); }, {"--carry-state", "--lengths fixed"});
}

}  // namespace
}  // namespace neap
