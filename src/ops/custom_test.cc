#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/file_testing.h"
#include "neap/layers.h"
#include "neap/op.h"
#include "neap/train.h"

namespace neap {
namespace {

std::int64_t count_of(const OpData& d) { return d.types.outputs[0].elements(); }

// y = x^3 * scale, through a workspace; dx = 3 x^2 dy * scale.
void register_cube() {
  static const bool done = [] {
    register_op({.name = "test_cube",
                 .infer = [](const OpTypes& t) { return std::vector<TensorType>{t.in(0)}; },
                 .run =
                     [](const OpData& d) {
                       const auto scale = static_cast<float>(d.types.attrs.real("scale", 1));
                       auto* square = reinterpret_cast<float*>(d.workspace);
                       for (std::int64_t i = 0; i < count_of(d); ++i) square[i] = d.in<float>(0)[i] * d.in<float>(0)[i];
                       for (std::int64_t i = 0; i < count_of(d); ++i) {
                         d.out<float>(0)[i] = square[i] * d.in<float>(0)[i] * scale;
                       }
                     },
                 .gradient =
                     [](const OpGradient& c) {
                       const Value factor = c.g.scalar(3 * c.attrs.real("scale", 1));
                       const Value slope = c.g("mul", {c.g("square", {c.x[0]}), factor});
                       return Values{c.g("mul", {slope, c.dy[0]})};
                     },
                 .workspace = [](const OpTypes& t) { return t.outputs[0].bytes(); }});
    return true;
  }();
  ASSERT_TRUE(done);
}

// The fourth parameter of x -> mean((w x)^3 - t)^2 has a gradient that finite differences confirm.
class Cubes final : public Model {
 public:
  std::string name() const override { return "cubes"; }
  void build(Builder& g, const BuildRequest& r) const override {
    const Value x = g.input("x", DType::kF32, {r.batch, 3});
    const Value y = g.input("target", DType::kF32, {r.batch, 2});
    const Value h = g("test_cube", {linear(g, "fc", x, 2)}, {{"scale", 0.5}});
    g.output("loss", g("mse", {h, y}));
  }
};

void feed(std::string_view input, std::span<std::byte> dst) {
  for (std::size_t i = 0; i < dst.size() / 4; ++i) {
    const float x = static_cast<float>(i % 3) - 1;
    const float value = input == "x" ? x : 0.5F * x * x * x;
    std::memcpy(dst.data() + i * 4, &value, 4);
  }
}

// The losses of two steps of plain descent with rate lr: L - lr |g|^2 to first order, for two rates.
TEST(CustomOp, TrainsWithTheGradientItGives) {
  register_cube();
  const auto second_loss = [](double lr) {
    TrainOptions options;
    options.steps = 2;
    options.batch = 6;
    options.optimizer = {.name = "sgd", .lr = lr, .momentum = 0, .weight_decay = 0};
    Trainer trainer(std::make_shared<Cubes>(), options, feed);
    trainer.advance();
    return static_cast<double>(trainer.advance().loss);
  };
  const double start = second_loss(0);
  const double small = start - second_loss(0.01);
  const double twice = start - second_loss(0.02);
  EXPECT_GT(small, 0);
  EXPECT_NEAR(twice / small, 2, 0.1);
}

TEST(CustomOp, WhatIsWrongIsSaid) {
  register_cube();
  testing::expect_user_error([] { register_op({.name = "nothing"}); }, {"nothing", "infer"});
  const auto again = [](const char* name) {
    return [name] {
      register_op({.name = name,
                   .infer = [](const OpTypes&) { return std::vector<TensorType>(); },
                   .run = [](const OpData&) {}});
    };
  };
  testing::expect_user_error(again("test_cube"), {"test_cube", "already"});
  testing::expect_user_error(again("softmax"), {"softmax", "already"});
  Builder g;
  testing::expect_user_error([&] { g("test_cube", {}); }, {"test_cube", "input 0 is missing"});
}

}  // namespace
}  // namespace neap
