// Batches that are computed in parts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/file_testing.h"
#include "core/random.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "neap/train.h"
#include "train/parts.h"
#include "train/resume_testing.h"

namespace neap {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr std::int64_t kWidth = 64;
constexpr int kSteps = 6;

class Net final : public Model {
 public:
  explicit Net(bool has_norm = false) : has_norm_(has_norm) {}
  std::string name() const override { return "net"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, kWidth});
    const Value target = g.input("target", DType::kF32, {request.batch, 1});
    Value y = g("gelu", {linear(g, "first", x, 4 * kWidth)});
    y = g("gelu", {linear(g, "second", y, kWidth)});
    if (has_norm_) {
      g.freeze_batch_norm(request.frozen_batch_norm.value_or(false));
      y = g("reshape", {y}, {{"shape", Shape{request.batch, 1, 1, kWidth}}});
      y = g("reshape", {batch_norm(g, "norm", y)}, {{"shape", Shape{request.batch, kWidth}}});
    }
    g.output("loss", g("mse", {linear(g, "last", y, 1), target}));
  }

 private:
  bool has_norm_;
};

// The rows of an endless table, in order: how a batch is cut does not change what it holds.
class Rows {
 public:
  void operator()(std::string_view input, std::span<std::byte> dst) {
    const bool is_x = input == "x";
    std::int64_t& at = is_x ? x_ : target_;
    std::vector<float> values(dst.size() / sizeof(float));
    for (float& v : values) {
      v = static_cast<float>(RandomStream(mix(is_x ? 1 : 2, static_cast<std::uint64_t>(at++))).normal());
    }
    std::memcpy(dst.data(), values.data(), dst.size());
  }

 private:
  std::int64_t x_ = 0;
  std::int64_t target_ = 0;
};

TrainOptions options_for(std::int64_t parts, const std::string& optimizer = "sgd", double clip = 0) {
  TrainOptions out{.steps = kSteps, .batch = kBatch, .accumulate = parts, .threads = 1};
  out.optimizer = {.name = optimizer, .lr = 0.05, .weight_decay = 0.01, .clip = clip};
  out.synchronous_planning = true;
  return out;
}

struct Record {
  std::vector<float> losses;
  Summary summary;
};

Record run(const TrainOptions& options) {
  Trainer trainer(std::make_shared<Net>(), options, Rows());
  Record out;
  for (int i = 0; i < kSteps; ++i) out.losses.push_back(trainer.advance().loss);
  out.summary = trainer.summary();
  return out;
}

TEST(Accumulate, PartsLearnWhatTheWholeBatchDoes) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const double clip : {0.0, 0.05}) {
      const Record whole = run(options_for(1, optimizer, clip));
      for (const std::int64_t parts : {2, 4, 32}) {
        const Record cut = run(options_for(parts, optimizer, clip));
        EXPECT_EQ(cut.summary.batch, kBatch);
        for (int i = 0; i < kSteps; ++i) {
          EXPECT_NEAR(cut.losses[static_cast<std::size_t>(i)], whole.losses[static_cast<std::size_t>(i)],
                      2e-5 * std::abs(whole.losses[static_cast<std::size_t>(i)]))
              << optimizer << " clip " << clip << " parts " << parts << " step " << i;
        }
      }
    }
  }
  // The tolerance above means something: another step size is seen at once.
  TrainOptions other = options_for(4);
  other.optimizer.lr *= 1.01;
  EXPECT_GT(std::abs(run(other).losses.back() - run(options_for(1)).losses.back()), 1e-4);
}

TEST(Accumulate, IsReproducibleAndTakesLessThanTheWholeBatch) {
  const Record once = run(options_for(8));
  EXPECT_EQ(run(options_for(8)).summary.weights_hash, once.summary.weights_hash);
  // Activations shrink with the part; a sum a parameter comes on top of the state.
  const Summary whole = run(options_for(1)).summary;
  EXPECT_LE(once.summary.saved_bytes * 6, whole.saved_bytes);  // of eight parts, rounded up
  EXPECT_LT(once.summary.peak_bytes - once.summary.state_bytes, whole.peak_bytes - whole.state_bytes);
  EXPECT_GT(once.summary.state_bytes, whole.state_bytes);
}

TEST(Accumulate, EveryPlanGivesTheSameBits) {
  const Record stored = run(options_for(4));
  for (const char* budget : {"min", "min+20%"}) {
    TrainOptions options = options_for(4);
    options.budget = budget;
    options.guard = true;
    const Record run_within = run(options);
    EXPECT_EQ(run_within.summary.weights_hash, stored.summary.weights_hash) << budget;
    EXPECT_EQ(run_within.summary.violations, 0);
  }
}

// What is stored in fewer bits is made anew in each part, with other random numbers than in the part before.
TEST(Accumulate, PartsDecodeWhatTheyHaveEncoded) {
  TrainOptions options = options_for(4);
  options.policy = "int8";
  const Record rounded = run(options);
  const Record exact = run(options_for(4));
  EXPECT_EQ(run(options).summary.weights_hash, rounded.summary.weights_hash);
  EXPECT_NE(exact.summary.weights_hash, rounded.summary.weights_hash);
  EXPECT_LT(rounded.summary.saved_bytes, exact.summary.saved_bytes);
  for (int i = 0; i < kSteps; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_NEAR(rounded.losses[at], exact.losses[at], 0.02 * std::abs(exact.losses[at])) << i;
  }
}

TEST(Accumulate, ResumesToTheSameBits) {
  testing::expect_same_bits_resumed({.model = "gpt-mini:layers=1,width=64,heads=2,dropout=0.1",
                                     .steps = 6,
                                     .batch = 8,
                                     .accumulate = 2,
                                     .length = 32,
                                     .seed = 3,
                                     .threads = 1});
}

TEST(Accumulate, RefusesWhatWouldMeanSomethingElse) {
  const auto refused = [](const TrainOptions& options, bool has_norm, std::initializer_list<std::string_view> words) {
    testing::expect_user_error([&] { Trainer(std::make_shared<Net>(has_norm), options, Rows()); }, words);
  };
  refused(options_for(5), false, {"--accumulate 5", "32"});
  refused(options_for(-1), false, {"--accumulate -1"});
  refused(options_for(2), true, {"batch norm", "norm", "--accumulate-batch-norm"});
  TrainOptions noted = options_for(2);
  noted.decisions = "x.jsonl";
  refused(noted, false, {"--accumulate", "--decisions"});
  TrainOptions allowed = options_for(2);
  allowed.accumulate_batch_norm = true;
  EXPECT_GT(Trainer(std::make_shared<Net>(true), allowed, Rows()).advance().loss, 0);
  TrainOptions frozen = options_for(2);
  frozen.frozen_batch_norm = true;
  EXPECT_GT(Trainer(std::make_shared<Net>(true), frozen, Rows()).advance().loss, 0);
}

// So many samples that activations outweigh the sums of gradients.
TrainOptions many_in(std::int64_t parts) {
  TrainOptions out = options_for(parts);
  out.batch = 64 * kBatch;
  return out;
}

TEST(Accumulate, AutoTakesTheFewestPartsThatTheBudgetNeeds) {
  const auto model = std::make_shared<Net>();
  const auto least = [&](std::int64_t parts) { return plan_training(model, many_in(parts)).min_budget_bytes; };
  ASSERT_LT(least(2), least(1));
  ASSERT_LT(least(4), least(2));
  const auto taken = [&](std::int64_t budget) {
    TrainOptions options = many_in(0);
    options.budget = std::to_string(budget);
    return with_settled_parts(model, options).accumulate;
  };
  EXPECT_EQ(taken(least(1)), 1);
  EXPECT_EQ(taken(least(1) - 1), 2);
  EXPECT_EQ(taken(least(2) - 1), 4);
  EXPECT_EQ(with_settled_parts(model, many_in(0)).accumulate, 1) << "without a budget";
  EXPECT_EQ(with_settled_parts(model, many_in(3)).accumulate, 3) << "what was asked for stays";
}

TEST(Accumulate, AutoTrainsAsTheSameNumberOfPartsDoes) {
  const auto model = std::make_shared<Net>();
  const std::int64_t budget = plan_training(model, many_in(2)).min_budget_bytes;
  const auto train = [&](std::int64_t parts) {
    TrainOptions options = many_in(parts);
    options.budget = std::to_string(budget);
    Record out = run(options);
    EXPECT_EQ(out.summary.parts, 2);
    EXPECT_LE(out.summary.peak_bytes, budget);
    return out;
  };
  EXPECT_EQ(train(0).losses, train(2).losses);
}

TEST(Accumulate, AutoRefusesWhatItCannotSettle) {
  TrainOptions share = many_in(0);
  share.budget = "50%";
  EXPECT_THROW(with_settled_parts(std::make_shared<Net>(), share), UserError);
  TrainOptions small = many_in(0);
  small.budget = "1KiB";
  EXPECT_THROW(with_settled_parts(std::make_shared<Net>(true), small), UserError) << "batch norm";
  EXPECT_THROW(fit_training(std::make_shared<Net>(), small, "batch"), UserError);
}

}  // namespace
}  // namespace neap
