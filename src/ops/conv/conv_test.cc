#include <omp.h>

#include <algorithm>

#include "graph/op.h"
#include "ops/conv/window.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase conv_case(Shape x, Shape w, Attrs attrs = {}) {
  const Shape bias{w[0]};
  return {.op = "conv", .inputs = {f32(std::move(x)), f32(std::move(w)), f32(bias)}, .attrs = std::move(attrs)};
}

OpCase without_bias(OpCase c) {
  c.inputs.resize(2);
  return c;
}

TEST(Conv, TwoAxes) {
  check_op(conv_case({2, 7, 9, 16}, {16, 3, 3, 16}, {{"pads", Ints{1, 1, 1, 1}}}));
  check_op(without_bias(conv_case({2, 7, 9, 16}, {32, 3, 3, 16}, {{"pads", Ints{1, 1, 1, 1}}})));
  check_op(conv_case({1, 5, 6, 3}, {4, 3, 2, 3}));
  check_op(conv_case({3, 4, 4, 1}, {5, 1, 1, 1}));
}

TEST(Conv, OneAxis) {
  check_op(conv_case({2, 11, 6}, {8, 3, 6}, {{"pads", Ints{1, 1}}}));
  check_op(conv_case({2, 16, 5}, {7, 4, 5}, {{"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{3, 1}}}));
}

TEST(Conv, ThreeAxes) {
  check_op(conv_case({2, 3, 4, 5, 6}, {8, 2, 3, 2, 6}, {{"pads", Ints{1, 1, 0, 0, 1, 1}}}));
  check_op(conv_case({1, 5, 6, 4, 4}, {6, 2, 2, 2, 2},
                     {{"groups", 2}, {"strides", Ints{2, 1, 2}}, {"dilations", Ints{2, 3, 1}}}));
}

TEST(Conv, StridesPadsAndDilations) {
  check_op(conv_case({2, 9, 8, 16}, {16, 3, 3, 16}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}));
  check_op(conv_case({2, 9, 8, 16}, {32, 1, 1, 16}, {{"strides", Ints{2, 2}}}));
  check_op(conv_case({1, 13, 12, 3}, {64, 7, 7, 3}, {{"strides", Ints{2, 2}}, {"pads", Ints{3, 3, 3, 3}}}));
  check_op(conv_case({1, 9, 10, 4}, {6, 3, 2, 4}, {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 0, 1, 3}}}));
  check_op(conv_case({1, 10, 7, 2}, {3, 2, 3, 2}, {{"strides", Ints{3, 2}}, {"pads", Ints{0, 2, 1, 0}}}));
}

TEST(Conv, NegativePadsCrop) { check_op(conv_case({1, 8, 9, 3}, {4, 3, 3, 3}, {{"pads", Ints{-1, 1, 0, -2}}})); }

TEST(Conv, Groups) {
  const Attrs same{{"groups", 2}, {"pads", Ints{1, 1, 1, 1}}};
  check_op(conv_case({2, 5, 6, 32}, {32, 3, 3, 16}, same));
  check_op(conv_case({2, 5, 6, 6}, {4, 3, 3, 3}, same));
}

TEST(Conv, Depthwise) {
  for (const int channels : {16, 5, 33}) {
    Attrs attrs{{"groups", channels}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 1}}};
    check_op(conv_case({2, 6, 7, channels}, {channels, 3, 3, 1}, attrs));
  }
  check_op(conv_case({2, 6, 7, 4}, {8, 3, 3, 1}, {{"groups", 4}}));  // two filters a channel
}

TEST(Conv, BiasAloneIsTrained) {
  OpCase c = conv_case({2, 4, 5, 3}, {4, 2, 2, 3});
  c.constant = {1};
  check_gradient(c);
}

TEST(Conv, SymbolicSizesPassThrough) {
  Builder g;
  const Dim n = Dim::symbol("batch");
  const Dim t = Dim::symbol("time");
  const Value x = g.input("x", DType::kF32, {n, t, 8});
  const Value w = g.input("w", DType::kF32, {4, 3, 8});
  EXPECT_EQ(g.shape(g("conv", {x, w}, {{"pads", Ints{1, 1}}})), (Shape{n, t, 4}));
  EXPECT_EQ(g.shape(g("conv", {x, w}, {{"strides", Ints{2}}})), (Shape{n, Dim::unknown(), 4}));
}

std::vector<std::byte> bits(const OpCase& c, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const auto out = run_op(c);
  omp_set_num_threads(before);
  return out[0].data;
}

// The weight's gradient is not among them: the library splits its sum over images among the threads.
TEST(Conv, BitsDoNotDependOnThreads) {
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  const OpCase forward = conv_case({4, 14, 14, 64}, {64, 3, 3, 64}, same);
  EXPECT_EQ(bits(forward, 1), bits(forward, 2));
  const OpCase data{.op = "conv_grad_data",
                    .inputs = {f32({4, 14, 14, 64}), f32({64, 3, 3, 64})},
                    .attrs = {{"pads", Ints{1, 1, 1, 1}}, {"shape", Shape{4, 14, 14, 64}}}};
  EXPECT_EQ(bits(data, 1), bits(data, 2));
}

TEST(Conv, AnImageDoesNotDependOnItsBatch) {
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  const OpCase batch = conv_case({8, 14, 14, 64}, {64, 3, 3, 64}, same);
  OpCase first = conv_case({1, 14, 14, 64}, {64, 3, 3, 64}, same);
  HostTensor image(first.inputs[0]);
  const HostTensor images = random_tensor(batch.inputs[0], 100);
  image.data.assign(images.data.begin(), images.data.begin() + static_cast<std::ptrdiff_t>(image.data.size()));
  first.given[0] = image;
  const auto all = bits(batch, 2);
  const auto one = bits(first, 2);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin()));
}

TEST(Conv, BadInput) {
  const auto run = [](Shape x, Shape w, Attrs attrs) {
    run_op(conv_case(std::move(x), std::move(w), std::move(attrs)));
  };
  EXPECT_THROW(run({2, 4, 4, 3}, {8, 3, 3, 4}, {}), UserError);                         // channels differ
  EXPECT_THROW(run({2, 4, 4, 3}, {8, 3, 3}, {}), UserError);                            // ranks differ
  EXPECT_THROW(run({2, 4, 4, 3}, {8, 5, 3, 3}, {}), UserError);                         // kernel too large
  EXPECT_THROW(run({2, 4, 4, 3}, {8, 3, 3, 3}, {{"strides", Ints{0, 1}}}), UserError);  // no stride
  EXPECT_THROW(run({2, 4, 4, 3}, {8, 3, 3, 3}, {{"pads", Ints{1, 1}}}), UserError);     // too few pads
  EXPECT_THROW(run({2, 4, 4, 4}, {6, 3, 3, 1}, {{"groups", 4}}), UserError);            // 4 does not divide 6
  EXPECT_THROW(run({2, 4, 4, 4, 4, 4}, {6, 3, 3, 3, 3, 4}, {}), UserError);             // four spatial axes
}

TEST(Window, CeilingCountsWindowsThatStartInside) {
  const ops::WindowAxis axis{.kernel = 2, .stride = 2};
  EXPECT_EQ(ops::window_positions(5, axis), Dim(2));
  EXPECT_EQ(ops::window_positions(5, axis, true), Dim(3));
  // A second window would start in the padding behind the end.
  EXPECT_EQ(ops::window_positions(3, {.kernel = 2, .stride = 3, .pad_end = 1}, true), Dim(1));
}

}  // namespace
}  // namespace neap
