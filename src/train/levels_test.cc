#include "train/levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/file_testing.h"
#include "core/random.h"
#include "neap/layers.h"
#include "neap/train.h"
#include "train/setup.h"

namespace neap {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kWidth = 128;

// A shift and two products, with smooth activations between them.
class Deep final : public Model {
 public:
  std::string name() const override { return "deep"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, kWidth});
    const Value target = g.input("target", DType::kF32, {request.batch, 1});
    Value y = g("gelu", {g("add", {x, g.parameter("shift", {kWidth}, Init::normal(0.1))})});
    y = g("gelu", {linear(g, "second", y, 4 * kWidth)});
    g.output("loss", g("mse", {linear(g, "last", y, 1), target}));
  }
};

// Normal numbers, other ones in each step; `spoil` changes x.
class Source {
 public:
  using Spoil = std::function<void(std::int64_t step, std::span<float> x)>;
  explicit Source(Spoil spoil = {}, std::int64_t done = 0) : spoil_(std::move(spoil)), step_(done) {}

  void operator()(std::string_view input, std::span<std::byte> dst) {
    std::vector<float> values(dst.size() / sizeof(float));
    if (input == "x") ++step_;
    RandomStream random(static_cast<std::uint64_t>(step_) * 2 + (input == "x" ? 1 : 0));
    for (float& v : values) v = static_cast<float>(random.normal());
    if (input == "x" && spoil_) spoil_(step_, values);
    std::memcpy(dst.data(), values.data(), dst.size());
  }

 private:
  Spoil spoil_;
  std::int64_t step_;
};

TrainOptions options_with(const std::string& policy, const std::string& tolerance, double lr = 0.01) {
  TrainOptions out{.batch = kBatch, .policy = policy};
  out.precision.tolerance = tolerance;
  out.optimizer = {.name = "sgd", .lr = lr, .weight_decay = 0};
  return out;
}

std::string hash_after(const TrainOptions& options, int steps, const Source::Spoil& spoil = {}) {
  Trainer trainer(std::make_shared<Deep>(), options, Source(spoil));
  for (int i = 0; i < steps; ++i) trainer.advance();
  return trainer.summary().weights_hash;
}

TEST(Levels, ParsesTolerances) {
  EXPECT_EQ(parse_tolerance("exact"), std::nullopt);
  EXPECT_EQ(parse_tolerance("default"), 0.1);
  EXPECT_EQ(parse_tolerance("0.25"), 0.25);
  for (const char* text : {"", "0", "-1", "nan", "inf", "0.1x", "none"}) {
    testing::expect_user_error([&] { parse_tolerance(text); }, {"--tolerance"});
  }
}

TEST(Levels, SettingsAreRefusedByName) {
  const auto refused = [](auto change, std::initializer_list<std::string_view> words) {
    PrecisionOptions o;
    change(o);
    testing::expect_user_error([&] { precision_config(o); }, words);
  };
  refused([](PrecisionOptions& o) { o.levels = ""; }, {"precision_levels"});
  refused([](PrecisionOptions& o) { o.levels = "bit"; }, {"level"});
  refused([](PrecisionOptions& o) { o.default_precision = "int5"; }, {"--default-precision", "int5"});
  refused([](PrecisionOptions& o) { o.choice = "dice"; }, {"--precision-choice"});
  refused([](PrecisionOptions& o) { o.table = "norm"; }, {"--precision-table"});
  refused([](PrecisionOptions& o) { o.profiling_window = 0; }, {"profiling_window"});
  refused([](PrecisionOptions& o) { o.profiling_batches = 0; }, {"profiling_granularity"});
}

TEST(Levels, FindsWhatBackwardReadsAndLeavesTheRest) {
  Trainer trainer(std::make_shared<Deep>(), options_with("int8", "exact"), Source());
  const Summary s = trainer.summary();
  ASSERT_EQ(s.stored.size(), 2U) << "what goes into the activations; their results are derived from it";
  for (const StoredTensorReport& t : s.stored) EXPECT_EQ(t.level, "int8");
  EXPECT_LT(s.saved_bytes * 3, s.exact_saved_bytes);
}

// NaN, infinities, and 1e38 beside 1e-38: the step is that of a run that stores everything exactly, and is reported.
TEST(Levels, ValuesThatNoLevelHoldsAreKeptExactlyAndReported) {
  const auto with = [](float value) {
    return [value](std::int64_t step, std::span<float> x) {
      if (step == 2) {
        for (std::size_t i = 0; i < x.size(); i += kWidth) x[i] = value;
      }
    };
  };
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity(), 3e37F}) {
    for (const char* policy : {"int8", "int4"}) {
      Trainer trainer(std::make_shared<Deep>(), options_with(policy, "exact", 0), Source(with(value)));
      EXPECT_EQ(trainer.advance().note, "");
      const StepReport bad = trainer.advance();
      EXPECT_NE(bad.note.find("stored exactly"), std::string::npos) << value;
      EXPECT_EQ(trainer.advance().note, "");
      EXPECT_GE(trainer.summary().kept_exact, 1);
      EXPECT_EQ(trainer.summary().replays, 1);
    }
  }
}

// The replayed step has the bits of store-all: nothing of the first try stays.
TEST(Levels, AStepThatIsRunAgainHasTheBitsOfStoreAll) {
  const auto spoil = [](std::int64_t /*step*/, std::span<float> x) {
    for (std::size_t i = 0; i < x.size(); i += kWidth) x[i] = std::numeric_limits<float>::infinity();
  };
  EXPECT_EQ(hash_after(options_with("int8", "exact"), 1, spoil),
            hash_after(options_with("store-all", "exact"), 1, spoil));
}

TEST(Levels, TheGreatestBesideTheSmallestIsReported) {
  const auto spoil = [](std::int64_t step, std::span<float> x) {
    for (std::size_t i = 0; step == 2 && i < x.size(); ++i) x[i] = i % 2 == 0 ? 1e38F : 1e-38F;
  };
  for (const char* tolerance : {"default", "0.01"}) {
    Trainer trainer(std::make_shared<Deep>(), options_with("adaptive", tolerance, 0), Source(spoil));
    EXPECT_EQ(trainer.advance().note, "");
    EXPECT_NE(trainer.advance().note.find("stored exactly"), std::string::npos);
    EXPECT_EQ(trainer.summary().stored.at(0).level, "fp32");
  }
}

TEST(Levels, EqualAndTinyValuesDoNoHarm) {
  for (const float scale : {0.0F, 1e-42F, 1e-30F}) {
    const auto spoil = [scale](std::int64_t /*step*/, std::span<float> x) {
      for (float& v : x) v *= scale;
    };
    for (const char* policy : {"bf16", "int8", "int4"}) {
      Trainer trainer(std::make_shared<Deep>(), options_with(policy, "exact"), Source(spoil));
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(trainer.advance().loss)) << policy << " " << scale;
    }
  }
}

// A scripted shift: outliers come in step 9 and go in step 17.
TEST(Levels, FollowTheDataUpAndDown) {
  const auto spoil = [](std::int64_t step, std::span<float> x) {
    if (step < 9 || step >= 17) return;
    for (std::size_t i = 0; i < x.size(); i += 251) x[i] = 120;
  };
  TrainOptions options = options_with("adaptive", "0.06", 0);
  options.precision.profiling_batches = 1;
  options.precision.profiling_window = 2;
  Trainer trainer(std::make_shared<Deep>(), options, Source(spoil));
  const auto levels_after = [&](int steps) {
    for (int i = 0; i < steps; ++i) trainer.advance();
    return trainer.summary().stored.at(0).level;  // the shift's result: the data themselves
  };
  EXPECT_EQ(levels_after(8), "int4");
  EXPECT_EQ(levels_after(8), "int8");
  EXPECT_EQ(levels_after(8), "int4");
}

// A scripted shift of scale: from step 9 to 16 values are beyond FP16.
TEST(Levels, FollowTheScaleUpAndDown) {
  const auto spoil = [](std::int64_t step, std::span<float> x) {
    for (float& v : x) v *= step >= 9 && step < 17 ? 1e6F : 1;
  };
  TrainOptions options = options_with("adaptive", "default", 0);
  options.precision.levels = "fp32,fp16";
  options.precision.default_precision = "fp16";
  options.precision.profiling_batches = 1;
  options.precision.profiling_window = 2;
  Trainer trainer(std::make_shared<Deep>(), options, Source(spoil));
  const auto level_after = [&](int steps) {
    for (int i = 0; i < steps; ++i) trainer.advance();
    return trainer.summary().stored.at(0).level;
  };
  EXPECT_EQ(level_after(8), "fp16");
  EXPECT_EQ(level_after(8), "fp32");
  EXPECT_GE(trainer.summary().kept_exact, 1);
  EXPECT_EQ(level_after(8), "fp16");
}

// By default rounding shows in backward alone: the first loss is store-all's. What flows shows at once, and little.
TEST(Levels, WhatFlowsChangesTheLoss) {
  const auto first_loss = [](const char* policy, bool is_flowing) {
    TrainOptions options = options_with(policy, "exact");
    options.precision.flow_quantized = is_flowing;
    return Trainer(std::make_shared<Deep>(), options, Source()).advance().loss;
  };
  const double exact = first_loss("store-all", false);
  double last = 0;
  for (const char* policy : {"bf16", "int8", "int4"}) {
    EXPECT_EQ(first_loss(policy, false), exact);
    const double change = std::fabs(first_loss(policy, true) - exact) / exact;
    EXPECT_GT(change, 0) << policy;
    EXPECT_LT(change, 0.05) << policy;
    last = change;
  }
  EXPECT_GT(last, 1e-5) << "int4";
}

// Now and then one call runs twice, and the sensitivities are no longer what was assumed.
TEST(Levels, SensitivitiesAreMeasuredInPassing) {
  Trainer trainer(std::make_shared<Deep>(), options_with("adaptive", "default"), Source());
  for (int i = 0; i < 40; ++i) trainer.advance();
  int measured = 0;
  for (const StoredTensorReport& t : trainer.summary().stored) {
    measured += t.sensitivity != 1 ? 1 : 0;
    EXPECT_GT(t.sensitivity, 0.01);
    EXPECT_LT(t.sensitivity, 20) << t.name;
    EXPECT_GT(t.entropy, 3);
  }
  EXPECT_GT(measured, 0);
}

TEST(Levels, TheSameSeedGivesTheSameBits) {
  const TrainOptions options = options_with("adaptive", "default");
  const std::string first = hash_after(options, 30);
  EXPECT_EQ(hash_after(options, 30), first);
  TrainOptions other = options;
  other.seed = 5;
  EXPECT_NE(hash_after(other, 30), first);
  TrainOptions flowing = options;
  flowing.precision.flow_quantized = true;
  EXPECT_NE(hash_after(flowing, 30), first);
}

// Three products in a chain, or with a branch around the second.
class Three final : public Model {
 public:
  explicit Three(bool is_residual) : is_residual_(is_residual) {}
  std::string name() const override { return "three"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, kWidth});
    const Value target = g.input("target", DType::kF32, {request.batch, kWidth});
    const Value a = linear(g, "a", x, kWidth);
    Value b = linear(g, "b", g("gelu", {a}), kWidth);
    b = is_residual_ ? g("add", {a, b}) : g("gelu", {b});
    g.output("loss", g("mse", {linear(g, "c", b, kWidth), target}));
  }

 private:
  bool is_residual_;
};

// The share of the weights' gradients that an error gets into: a tensor's own layer, the one behind it, where its
// activation is derived from it, and all before it; half as much where the gradient came by another way too.
TEST(Levels, AnErrorsReachFollowsTheGradients) {
  const auto reach = [](bool is_residual, std::string_view name) {
    const auto setup = make_setup(std::make_shared<Three>(is_residual), options_with("int8", "exact"));
    for (const Storable& s : find_storable(setup.program->graph)) {
      if (setup.program->graph.at(s.id).name == name) return s.reach;
    }
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(reach(false, "a"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(reach(false, "b"), 1);
  EXPECT_DOUBLE_EQ(reach(true, "a"), 1.5 / 3);
}

// Levels, sensitivities and a measurement that is half done go on where they were.
TEST(Levels, AResumedRunGoesOnToTheSameBits) {
  constexpr int kSteps = 40;
  TrainOptions options = options_with("adaptive", "0.06");
  options.precision.profiling_batches = 4;
  const std::string whole = hash_after(options, kSteps);
  for (const int cut : {2, 8, 21, 33}) {
    const testing::TempDir folder;
    options.checkpoint = folder.path().string();
    {
      Trainer first(std::make_shared<Deep>(), options, Source());
      for (int i = 0; i < cut; ++i) first.advance();
      first.checkpoint();
    }
    TrainOptions later = options;
    later.resume = true;
    Trainer second(std::make_shared<Deep>(), later, Source({}, cut));
    EXPECT_EQ(second.step(), cut);
    for (int i = cut; i < kSteps; ++i) second.advance();
    EXPECT_EQ(second.summary().weights_hash, whole) << cut;
    // Another target begins anew, from the levels of its own.
    later.precision.tolerance = "0.5";
    EXPECT_NO_THROW(Trainer(std::make_shared<Deep>(), later, Source({}, cut)).advance());
  }
}

}  // namespace
}  // namespace neap
