// Training with products of bf16 on the CPU: it learns as f32 does, and budgets change no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "neap/trainer.h"

namespace neap {
namespace {

// Tokens that follow from those before them; images whose class shows in their brightness.
void feed(std::string_view input, std::span<std::byte> dst) {
  const bool is_float = input == "x" || input == "images";
  for (std::size_t i = 0; i < dst.size() / 4; ++i) {
    const auto token = static_cast<std::int32_t>(i * 3 % 7);
    const auto pixel = static_cast<float>((i * 37 % 101)) / 101.0F - 0.5F;
    std::memcpy(dst.data() + i * 4, is_float ? static_cast<const void*>(&pixel) : &token, 4);
  }
}

Summary train(const std::string& model, const std::string& compute, const std::string& budget, int steps = 12,
              std::int64_t image = 0) {
  TrainOptions options{.steps = steps, .batch = 4, .length = image > 0 ? 0 : 16, .budget = budget};
  options.image = image;
  options.compute = compute;
  options.synchronous_planning = true;
  Trainer trainer(open_model(model), options, feed);
  for (int i = 0; i < steps; ++i) trainer.advance();
  return trainer.summary();
}

const char* const kGpt = "gpt-mini:width=32,layers=2,heads=2,vocab=16,context=16";

TEST(MixedTraining, LearnsAsF32Does) {
  for (const char* model :
       {kGpt, "bert-mini:width=32,layers=2,heads=2,vocab=16,context=16", "lstm-lm:hidden=24,vocab=16"}) {
    const Summary wide = train(model, "f32", "", 25);
    const Summary narrow = train(model, "bf16", "", 25);
    EXPECT_NE(narrow.weights_hash, wide.weights_hash) << model;
    EXPECT_LT(narrow.last_loss, 2.6) << model;  // log 16 = 2.77 before
    EXPECT_NEAR(narrow.last_loss, wide.last_loss, 0.05 * (1 + wide.last_loss)) << model;
  }
}

TEST(MixedTraining, BudgetsChangeNoBit) {
  for (const char* model : {kGpt, "lstm-lm:hidden=24,vocab=16,chunk=5"}) {
    const Summary free = train(model, "bf16", "");
    for (const char* budget : {"min", "50%"}) {
      const Summary tight = train(model, "bf16", budget);
      EXPECT_EQ(tight.weights_hash, free.weights_hash) << model << " at " << budget;
      EXPECT_LT(tight.peak_bytes, free.peak_bytes) << model << " at " << budget;
    }
  }
}

TEST(MixedTraining, BudgetsChangeNoBitOfConvolutions) {
  const Summary free = train("resnet20", "bf16", "", 2, 16);
  const Summary tight = train("resnet20", "bf16", "min", 2, 16);
  EXPECT_EQ(tight.weights_hash, free.weights_hash);
  EXPECT_LT(tight.peak_bytes, free.peak_bytes);
}

}  // namespace
}  // namespace neap
