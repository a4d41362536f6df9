// Training with products of bf16 on the CPU: it learns as f32 does, and budgets change no bit.
#include <gtest/gtest.h>

#include <cstring>

#include "neap/train.h"

namespace neap {
namespace {

// Tokens that follow from those before them.
void feed(std::string_view /*input*/, std::span<std::byte> dst) {
  for (std::size_t i = 0; i < dst.size() / 4; ++i) {
    const auto token = static_cast<std::int32_t>(i * 3 % 7);
    std::memcpy(dst.data() + i * 4, &token, 4);
  }
}

TrainOptions options_of(const std::string& compute, const std::string& budget) {
  TrainOptions options{.batch = 4, .budget = budget};
  options.compute = compute;
  options.synchronous_planning = true;
  return options;
}

Summary run(Trainer& trainer, int steps) {
  for (int i = 0; i < steps; ++i) trainer.advance();
  return trainer.summary();
}

Summary train(const std::string& model, const std::string& compute, const std::string& budget, int steps = 12) {
  TrainOptions options = options_of(compute, budget);
  options.length = 16;
  Trainer trainer(open_model(model), options, feed);
  return run(trainer, steps);
}

Summary train_on_images(const std::string& budget) {
  TrainOptions options = options_of("bf16", budget);
  options.image = 16;
  options.data = "synthetic";
  Trainer trainer(open_model("resnet20"), options);
  return run(trainer, 2);
}

const char* const kGpt = "gpt-mini:width=32,layers=2,heads=2,vocab=16,context=16";

TEST(MixedTraining, LearnsAsF32Does) {
  for (const char* model :
       {kGpt, "bert-mini:width=32,layers=2,heads=2,vocab=16,context=16", "lstm-lm:hidden=24,vocab=16"}) {
    const Summary wide = train(model, "f32", "", 25);
    const Summary narrow = train(model, "bf16", "", 25);
    EXPECT_NE(narrow.weights_hash, wide.weights_hash) << model;
    EXPECT_LT(narrow.loss_last, 2.6) << model;  // log 16 = 2.77 before
    EXPECT_NEAR(narrow.loss_last, wide.loss_last, 0.05 * (1 + wide.loss_last)) << model;
  }
}

TEST(MixedTraining, BudgetsChangeNoBit) {
  for (const char* model : {kGpt, "lstm-lm:hidden=24,vocab=16,chunk=5"}) {
    const Summary free = train(model, "bf16", "");
    for (const char* budget : {"min", "min+5%"}) {
      const Summary tight = train(model, "bf16", budget);
      EXPECT_EQ(tight.weights_hash, free.weights_hash) << model << " at " << budget;
      EXPECT_LT(tight.peak_bytes, free.peak_bytes) << model << " at " << budget;
    }
  }
}

TEST(MixedTraining, BudgetsChangeNoBitOfConvolutions) {
  const Summary free = train_on_images("");
  const Summary tight = train_on_images("min");
  EXPECT_EQ(tight.weights_hash, free.weights_hash);
  EXPECT_LT(tight.peak_bytes, free.peak_bytes);
}

}  // namespace
}  // namespace neap
