// Inside an application: its memory, its batches.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/bytes.h"
#include "core/file_testing.h"
#include "neap/layers.h"
#include "neap/train.h"

namespace neap {
namespace {

// y = x W + b over two numbers.
class Line final : public Model {
 public:
  std::string name() const override { return "line"; }
  void build(Builder& g, const BuildRequest& request) const override {
    const Value x = g.input("x", DType::kF32, {request.batch, 2});
    const Value target = g.input("target", DType::kF32, {request.batch, 1});
    g.output("loss", g("mse", {linear(g, "fc", x, 1), target}));
  }
};

// target = 2 x0 - x1 + 0.5
void feed_line(std::string_view input, std::span<std::byte> dst) {
  const std::size_t rows = dst.size() / sizeof(float) / (input == "x" ? 2 : 1);
  for (std::size_t i = 0; i < rows; ++i) {
    const float x[2] = {static_cast<float>(i % 5) - 2, static_cast<float>(i % 3) - 1};
    const float y = 2 * x[0] - x[1] + 0.5F;
    if (input == "x") {
      std::memcpy(dst.data() + i * sizeof x, x, sizeof x);
    } else {
      std::memcpy(dst.data() + i * sizeof y, &y, sizeof y);
    }
  }
}

TrainOptions line_options(std::span<std::byte> reservation = {}) {
  TrainOptions out{.steps = 200};
  out.optimizer = {.name = "sgd", .lr = 0.05, .weight_decay = 0};
  out.reservation = reservation;
  return out;
}

TEST(Embed, TheApplicationFeedsInTheOrderOfTheInputs) {
  std::vector<std::string> asked;
  Trainer trainer(std::make_shared<Line>(), line_options(), [&](std::string_view input, std::span<std::byte> dst) {
    asked.emplace_back(input);
    EXPECT_EQ(dst.size(), input == "x" ? 32U * 2 * 4 : 32U * 4);
    feed_line(input, dst);
  });
  EXPECT_TRUE(asked.empty());
  trainer.advance();
  EXPECT_EQ(asked, (std::vector<std::string>{"x", "target"}));
  for (int i = 0; i < 199; ++i) trainer.advance();
  EXPECT_LT(trainer.summary().loss_last, 1e-6);
}

TEST(Embed, EverythingLiesInTheReservation) {
  const std::int64_t needed = plan_training(std::make_shared<Line>(), line_options()).min_budget_bytes;
  std::vector<std::byte> memory(static_cast<std::size_t>(needed) + 2 * kAlignment + 100, std::byte{0x5a});
  // One byte off any alignment, and exactly as much as is needed behind the next aligned byte.
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t skip = (kAlignment - address % kAlignment) % kAlignment + 1;
  const auto whole = std::span(memory).subspan(skip, static_cast<std::size_t>(needed + kAlignment - 1));
  Trainer trainer(std::make_shared<Line>(), line_options(whole), feed_line);
  for (int i = 0; i < 3; ++i) trainer.advance();
  EXPECT_EQ(trainer.plan().arena_bytes, needed);
  EXPECT_EQ(trainer.summary().peak_bytes, needed);
  EXPECT_EQ(trainer.summary().budget_bytes, needed);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool is_outside = i < skip + kAlignment - 1 || i >= skip + whole.size();
    ASSERT_TRUE(!is_outside || memory[i] == std::byte{0x5a}) << i;
  }
  Trainer own(std::make_shared<Line>(), line_options(), feed_line);
  for (int i = 0; i < 3; ++i) own.advance();
  EXPECT_EQ(own.summary().weights_hash, trainer.summary().weights_hash);
}

TEST(Embed, ATooSmallReservationIsRefusedWithTheBytesThatItTakes) {
  const std::int64_t needed = plan_training(std::make_shared<Line>(), line_options()).min_budget_bytes;
  std::vector<std::byte> memory(static_cast<std::size_t>(needed - 1));
  try {
    Trainer(std::make_shared<Line>(), line_options(memory), feed_line);
    FAIL() << "it fits";
  } catch (const DoesNotFit& e) {
    EXPECT_NE(std::string(e.what()).find("reservation"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(std::to_string(needed) + " bytes"), std::string::npos) << e.what();
  }
}

TEST(Embed, ThereIsNothingToEvaluateOn) {
  TrainOptions options = line_options();
  options.validation = 0.1;
  testing::expect_user_error([&] { Trainer(std::make_shared<Line>(), options, feed_line); }, {"data by name"});
}

TEST(Embed, OwnKernelsGiveTheLossesOfTheOthers) {
  TrainOptions options = line_options();
  Trainer usual(std::make_shared<Line>(), options, feed_line);
  options.own_kernels = true;
  Trainer own(std::make_shared<Line>(), options, feed_line);
  EXPECT_NEAR(usual.advance().loss, own.advance().loss, 1e-5);
}

}  // namespace
}  // namespace neap
