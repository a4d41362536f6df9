#include <cmath>
#include <limits>
#include <numeric>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

// Different numbers 0.1 apart in a scrambled order: a step of a finite difference changes no maximum.
HostTensor spaced(const TensorType& type) {
  HostTensor t(type);
  const std::int64_t n = type.elements();
  std::int64_t stride = 7919;
  while (std::gcd(stride, n) != 1) ++stride;
  for (std::int64_t i = 0; i < n; ++i)
    t.floats()[i] = 0.1F * static_cast<float>(i * stride % n) - 0.05F * static_cast<float>(n);
  return t;
}

OpCase pool_case(const char* op, Shape x, Attrs attrs = {}) {
  OpCase c{.op = op, .inputs = {{DType::kF32, std::move(x)}}, .attrs = std::move(attrs)};
  c.given[0] = spaced(c.inputs[0]);
  c.gradient_tolerance = 2e-2;
  return c;
}

std::vector<std::pair<Shape, Attrs>> cases() {
  const auto two = [](std::int64_t a, std::int64_t b) { return Ints{a, b}; };
  return {
      {{2, 4, 6, 16}, {{"kernel", two(2, 2)}, {"strides", two(2, 2)}}},
      {{2, 5, 7, 3}, {{"kernel", two(3, 2)}, {"strides", two(2, 1)}, {"pads", Ints{1, 0, 1, 1}}}},
      {{1, 9, 8, 33}, {{"kernel", two(3, 3)}, {"strides", two(2, 2)}, {"pads", Ints{1, 1, 1, 1}}}},
      {{1, 7, 7, 1}, {{"kernel", two(3, 3)}, {"dilations", two(2, 1)}, {"pads", Ints{2, 2, 2, 2}}}},
      {{2, 5, 6, 17}, {{"kernel", two(2, 2)}, {"strides", two(2, 4)}, {"ceil_mode", 1}}},
      {{1, 6, 6, 4}, {{"kernel", two(3, 3)}, {"strides", two(2, 2)}, {"pads", Ints{0, 1, 1, 0}}, {"ceil_mode", 1}}},
      {{2, 9, 5}, {{"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}}},
      {{2, 4, 5, 3, 2}, {{"kernel", Ints{2, 3, 2}}, {"strides", Ints{2, 1, 1}}, {"pads", Ints{1, 1, 0, 0, 1, 1}}}},
      {{1, 20, 18, 2}, {{"kernel", two(17, 17)}}},  // more than 256 places: an index of 32 bits
  };
}

TEST(MaxPool, KernelsAgreeAndGradientHolds) {
  for (const auto& [shape, attrs] : cases()) check_op(pool_case("max_pool", shape, attrs));
}

TEST(AveragePool, KernelsAgreeAndGradientHolds) {
  for (auto [shape, attrs] : cases()) {
    for (const int include : {0, 1, 2}) {
      attrs.set("count_include_pad", include > 0 ? 1 : 0);
      attrs.set("count_overhang", include > 1 ? 1 : 0);
      check_op({.op = "average_pool", .inputs = {{DType::kF32, shape}}, .attrs = attrs});
    }
  }
}

// Three pixels, windows of two: the second hangs over the end.
TEST(AveragePool, WhatTheDivisorCounts) {
  const auto last = [](std::int64_t include, std::int64_t overhang) {
    OpCase c{.op = "average_pool", .inputs = {{DType::kF32, {1, 3, 1}}}, .low = 6, .high = 6};
    c.attrs = {{"kernel", Ints{2}},
               {"strides", Ints{2}},
               {"ceil_mode", 1},
               {"count_include_pad", include},
               {"count_overhang", overhang}};
    return run_op(c)[0].floats()[1];
  };
  EXPECT_EQ(last(0, 0), 6);
  EXPECT_EQ(last(1, 0), 6);
  EXPECT_EQ(last(1, 1), 3);
  EXPECT_EQ(last(0, 1), 6);
}

TEST(GlobalPool, KernelsAgreeAndGradientHolds) {
  for (const Shape& shape :
       {Shape{2, 3, 5, 16}, Shape{3, 7, 33}, Shape{1, 40, 1, 3}, Shape{2, 1, 1, 1}, Shape{2, 3, 2, 2, 3}}) {
    check_op({.op = "global_average_pool", .inputs = {{DType::kF32, shape}}});
    check_op(pool_case("global_max_pool", shape));
  }
}

TEST(MaxPool, FirstOfEqualsIsChosen) {
  OpCase c = pool_case("max_pool", {1, 4, 1}, {{"kernel", Ints{4}}});
  const float x[] = {1, 2, 2, 1};
  std::copy_n(x, 4, c.given[0].floats());
  for (const char* kernel : {"simd", "ref"}) {
    auto out = run_op(c, kernel);
    EXPECT_EQ(out[0].floats()[0], 2);
    EXPECT_EQ(out[1].as<std::uint8_t>()[0], 1);
  }
}

TEST(MaxPool, NanAndInfinityGoThrough) {
  OpCase c = pool_case("max_pool", {1, 6, 1}, {{"kernel", Ints{3}}, {"strides", Ints{3}}});
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float x[] = {1, NAN, 2, -kInf, -kInf, -kInf};
  std::copy_n(x, 6, c.given[0].floats());
  for (const char* kernel : {"simd", "ref"}) {
    auto out = run_op(c, kernel);
    EXPECT_TRUE(std::isnan(out[0].floats()[0]));
    EXPECT_EQ(out[1].as<std::uint8_t>()[0], 1);
    EXPECT_EQ(out[0].floats()[1], -kInf);
    EXPECT_EQ(out[1].as<std::uint8_t>()[1], 0);
  }
}

TEST(AveragePool, PaddingCountsWhenAsked) {
  OpCase c{.op = "average_pool", .inputs = {{DType::kF32, {1, 3, 1}}}};
  c.low = c.high = 1;
  c.attrs = {{"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}};
  EXPECT_EQ(run_op(c)[0].floats()[0], 1);
  c.attrs.set("count_include_pad", 1);
  EXPECT_FLOAT_EQ(run_op(c)[0].floats()[0], 2.0F / 3);
  // The second window hangs over the end by one: that place is no padding and does not count.
  c.attrs = {{"kernel", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", 1}, {"count_include_pad", 1}};
  EXPECT_EQ(run_op(c)[0].floats()[1], 1);
}

TEST(Pool, BadInput) {
  const auto run = [](Shape x, Attrs attrs) { run_op(pool_case("max_pool", std::move(x), std::move(attrs))); };
  EXPECT_THROW(run({1, 4, 4, 1}, {}), UserError);                                                    // no kernel
  EXPECT_THROW(run({1, 4, 4, 1}, {{"kernel", Ints{2}}}), UserError);                                 // one axis of two
  EXPECT_THROW(run({1, 4, 4, 1}, {{"kernel", Ints{5, 5}}}), UserError);                              // too large
  EXPECT_THROW(run({1, 4, 4, 1}, {{"kernel", Ints{2, 2}}, {"pads", Ints{2, 0, 0, 0}}}), UserError);  // only padding
  EXPECT_THROW(run({4, 4}, {{"kernel", Ints{2}}}), UserError);
}

}  // namespace
}  // namespace neap
