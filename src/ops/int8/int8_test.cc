#include <omp.h>

#include <cmath>
#include <limits>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

std::vector<HostTensor> packed(const HostTensor& weight, bool transposed = false) {
  return run_op({.op = "pack_int8",
                 .inputs = {weight.type},
                 .attrs = {{"transposed", static_cast<std::int64_t>(transposed)}},
                 .given = {{0, weight}}});
}

// A call of the op with 8-bit weights, and the same call with those of 32.
struct Pair {
  OpCase small, exact;
};

Pair linear_case(const Shape& x, std::int64_t out, bool bias = true, bool transposed = false) {
  const std::int64_t in = x.size(-1);
  const TensorType weight = f32(transposed ? Shape{in, out} : Shape{out, in});
  const HostTensor w = random_tensor(weight, 7);
  const auto p = packed(w, transposed);
  Pair both;
  both.small = {.op = "linear_int8",
                .inputs = {f32(x), p[0].type, p[1].type, p[2].type},
                .attrs = {{"in", in}, {"out", out}},
                .given = {{1, p[0]}, {2, p[1]}, {3, p[2]}},
                .tolerance = 0};
  both.exact = {.op = "linear",
                .inputs = {f32(x), weight},
                .attrs = {{"transposed", static_cast<std::int64_t>(transposed)}},
                .given = {{1, w}}};
  if (bias) {
    both.small.inputs.push_back(f32({out}));
    both.small.given[4] = random_tensor(f32({out}), 9);
    both.exact.inputs.push_back(f32({out}));
    both.exact.given[2] = both.small.given[4];
  }
  const HostTensor rows = random_tensor(f32(x), 11, -0.5, 1);
  both.small.given[0] = rows;
  both.exact.given[0] = rows;
  return both;
}

Pair conv_case(Shape x, std::int64_t out, const Ints& kernel, Attrs attrs = {}) {
  Shape shape{out};
  for (const std::int64_t k : kernel) shape.push_back(k);
  shape.push_back(x[-1]);
  const HostTensor w = random_tensor(f32(shape), 7);
  const auto p = packed(w);
  Pair both;
  both.exact = {.op = "conv", .inputs = {f32(x), f32(shape)}, .attrs = attrs, .given = {{1, w}}};
  attrs.set("kernel", kernel);
  attrs.set("out", out);
  both.small = {.op = "conv_int8",
                .inputs = {f32(x), p[0].type, p[1].type, p[2].type},
                .attrs = attrs,
                .given = {{1, p[0]}, {2, p[1]}, {3, p[2]}},
                .tolerance = 0};
  const HostTensor image = random_tensor(f32(x), 11, -0.5, 1);
  both.small.given[0] = image;
  both.exact.given[0] = image;
  return both;
}

// Every rounding errs by at most half a step: half of 1.5 / 255 times a weight, half of 1 / 127 times an activation.
void expect_close(const Pair& both, double terms) {
  const auto small = run_op(both.small);
  const auto exact = run_op(both.exact);
  ASSERT_EQ(small[0].type, exact[0].type);
  double squares = 0;
  for (std::int64_t i = 0; i < small[0].type.elements(); ++i) {
    squares += std::pow(small[0].floats()[i] - exact[0].floats()[i], 2);
  }
  const double rms = std::sqrt(squares / static_cast<double>(small[0].type.elements()));
  EXPECT_LT(rms, 0.004 * std::sqrt(terms));
}

TEST(Int8, KernelsOfLayersAgreeToTheBit) {
  for (const std::int64_t rows : {1, 5, 6, 7, 50}) {
    for (const std::int64_t out : {1, 10, 16, 40, 64, 130}) {
      check_kernels(linear_case({rows, 37}, out).small);
    }
  }
  check_kernels(linear_case({2, 3, 64}, 48, false).small);
  check_kernels(linear_case({3, 20}, 33, true, true).small);
  check_kernels(linear_case({0, 20}, 33).small);
}

TEST(Int8, KernelsOfConvolutionsAgreeToTheBit) {
  check_kernels(conv_case({2, 7, 5, 3}, 20, {3, 3}, {{"pads", Ints{1, 1, 1, 1}}}).small);
  check_kernels(conv_case({1, 9, 9, 8}, 70, {3, 3}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}}).small);
  check_kernels(conv_case({2, 8, 8, 5}, 16, {3, 3}, {{"dilations", Ints{2, 2}}}).small);
  check_kernels(conv_case({3, 6, 6, 16}, 64, {1, 1}).small);
  check_kernels(conv_case({2, 11, 4}, 9, {5}, {{"pads", Ints{2, 2}}}).small);
  check_kernels(conv_case({1, 4, 4, 4, 2}, 6, {2, 2, 2}).small);
}

// Images that are too large for one block of a GPU, whose ranges are found in parts.
TEST(Int8, KernelsOfLargeImagesAgreeToTheBit) {
  check_kernels(conv_case({2, 40, 40, 13}, 5, {3, 3}, {{"strides", Ints{4, 4}}}).small);
}

TEST(Int8, KernelsPackToTheBit) {
  for (const auto& [shape, transposed] : std::vector<std::pair<Shape, std::int64_t>>{
           {{70, 37}, 0}, {{37, 70}, 1}, {{20, 3, 3, 5}, 0}, {{6, 2, 2, 2, 8}, 0}, {{130, 600}, 0}}) {
    HostTensor weight = random_tensor(f32(shape), 7);
    weight.floats()[5] = std::numeric_limits<float>::infinity();
    if (transposed == 0) std::fill_n(weight.floats() + 2 * weight.type.elements() / shape.size(0), 4, 0.0F);
    check_kernels({.op = "pack_int8",
                   .inputs = {weight.type},
                   .attrs = {{"transposed", transposed}},
                   .given = {{0, weight}},
                   .tolerance = 0});
  }
}

TEST(Int8, IsNearToThirtyTwoBits) {
  expect_close(linear_case({30, 200}, 50), 200);
  expect_close(linear_case({30, 200}, 50, true, true), 200);
  expect_close(conv_case({2, 10, 10, 16}, 24, {3, 3}, {{"pads", Ints{1, 1, 1, 1}}}), 144);
}

TEST(Int8, WeightsTakeAQuarter) {
  const auto p = packed(random_tensor(f32({128, 3, 3, 64}), 1));
  EXPECT_EQ(p[0].data.size(), 128U * 9 * 64);
}

// A sample's results are its own, whatever else is in the batch.
TEST(Int8, ImagesDoNotSeeEachOther) {
  Pair one = conv_case({1, 6, 6, 8}, 16, {3, 3});
  Pair two = conv_case({2, 6, 6, 8}, 16, {3, 3});
  HostTensor& both = two.small.given[0];
  std::copy(one.small.given[0].data.begin(), one.small.given[0].data.end(), both.data.begin());
  both.floats()[both.type.elements() - 1] = 1000;
  const auto alone = run_op(one.small);
  const auto together = run_op(two.small);
  EXPECT_TRUE(std::equal(alone[0].data.begin(), alone[0].data.end(), together[0].data.begin()));
}

TEST(Int8, NumbersThatAreNotFiniteStaySo) {
  Pair c = linear_case({2, 8}, 4);
  c.small.given[0].floats()[3] = std::numeric_limits<float>::infinity();
  c.small.given[0].floats()[8] = 0.5F;
  for (const char* kernel : {"simd", "ref"}) {
    const auto y = run_op(c.small, kernel);
    for (int o = 0; o < 4; ++o) {
      EXPECT_TRUE(std::isnan(y[0].floats()[o])) << kernel;
      EXPECT_FALSE(std::isnan(y[0].floats()[4 + o])) << kernel;
    }
  }
}

TEST(Int8, ZerosGiveTheBias) {
  Pair c = linear_case({2, 8}, 4);
  std::fill(c.small.given[0].data.begin(), c.small.given[0].data.end(), std::byte{});
  check_kernels(c.small);
  const auto y = run_op(c.small);
  for (int o = 0; o < 4; ++o) EXPECT_EQ(y[0].floats()[o], c.small.given[4].floats()[o]);
}

TEST(Int8, RefusesWhatDoesNotFit) {
  OpCase c = linear_case({2, 8}, 4).small;
  c.attrs.set("in", std::int64_t{9});
  EXPECT_THROW(run_op(c), UserError);
  OpCase other = conv_case({2, 6, 6, 8}, 16, {3, 3}).small;
  other.attrs.set("out", std::int64_t{17});
  EXPECT_THROW(run_op(other), UserError);
  EXPECT_THROW(run_op({.op = "pack_int8", .inputs = {f32({4})}}), UserError);
}

}  // namespace
}  // namespace neap
