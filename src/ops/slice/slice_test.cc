#include <numeric>

#include "autodiff/autodiff.h"
#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

constexpr std::int64_t kAll = INT64_MAX;

OpCase sliced(Shape shape, Ints starts, Ints ends, Ints axes, Ints steps) {
  return {.op = "slice",
          .inputs = {{DType::kF32, std::move(shape)}},
          .attrs = {{"starts", std::move(starts)},
                    {"ends", std::move(ends)},
                    {"axes", std::move(axes)},
                    {"steps", std::move(steps)}}};
}

TEST(Slice, KernelsAgreeAndGradientHolds) {
  check_op(sliced({7}, {2}, {5}, {0}, {1}));
  check_op(sliced({7, 5}, {2}, {5}, {0}, {1}));
  check_op(sliced({7, 5}, {1}, {4}, {1}, {1}));
  check_op(sliced({7, 5}, {1}, {4}, {-1}, {2}));
  check_op(sliced({7, 5}, {5, 0}, {1, kAll}, {0, 1}, {-2, 1}));
  check_op(sliced({7, 5}, {-1}, {-100}, {1}, {-1}));
  check_op(sliced({3, 20, 40}, {1, 3, 5}, {3, 19, 37}, {0, 1, 2}, {1, 1, 1}));
  check_op(sliced({3, 20, 40}, {18, 39}, {0, 0}, {1, 2}, {-3, -7}));
  check_op(sliced({4, 6}, {3}, {3}, {0}, {1}));
}

TEST(Slice, TakesWhatNumpyWould) {
  OpCase c = sliced({10}, {8}, {-100}, {0}, {-3});
  HostTensor x(c.inputs[0]);
  std::iota(x.floats(), x.floats() + 10, 0.0F);
  c.given[0] = x;
  const auto y = run_op(c)[0];
  ASSERT_EQ(y.type.text(), "f32[3]");
  EXPECT_EQ(y.floats()[0], 8);
  EXPECT_EQ(y.floats()[1], 5);
  EXPECT_EQ(y.floats()[2], 2);
}

std::string shape_of(const OpCase& c) {
  Builder g;
  return g.shape(g("slice", {g.input("x", DType::kF32, c.inputs[0].shape)}, c.attrs)).text();
}

TEST(Slice, BoundsAreCutToTheAxis) {
  EXPECT_EQ(shape_of(sliced({10}, {-100}, {kAll}, {0}, {1})), "[10]");
  EXPECT_EQ(shape_of(sliced({10}, {100}, {200}, {0}, {1})), "[0]");
  EXPECT_EQ(shape_of(sliced({10}, {5}, {2}, {0}, {1})), "[0]");
  EXPECT_EQ(shape_of(sliced({10}, {0}, {kAll}, {0}, {kAll})), "[1]");
  EXPECT_EQ(shape_of(sliced({10}, {kAll}, {INT64_MIN}, {0}, {-1})), "[10]");
  EXPECT_EQ(shape_of(sliced({10}, {kAll}, {INT64_MIN}, {0}, {INT64_MIN})), "[1]");
  EXPECT_EQ(shape_of(sliced({0}, {0}, {kAll}, {0}, {-1})), "[0]");
  EXPECT_EQ(shape_of(sliced({Dim::symbol("batch"), 10}, {1}, {3}, {1}, {1})), "[batch,2]");
  EXPECT_EQ(shape_of(sliced({Dim::symbol("batch"), 10}, {0}, {kAll}, {0}, {1})), "[batch,10]");
  EXPECT_EQ(shape_of(sliced({Dim::symbol("batch"), 10}, {0}, {3}, {0}, {1})), "[?,10]");
}

std::optional<std::int64_t> view(const OpCase& c) {
  const OpDef& op = op_named("slice");
  return op.view_offset({.op = &op, .attrs = c.attrs, .inputs = {c.inputs[0]}});
}

TEST(Slice, IsAViewWhereItLiesInOnePiece) {
  EXPECT_EQ(view(sliced({8, 5}, {2}, {4}, {0}, {1})), 2 * 5 * 4);
  EXPECT_EQ(view(sliced({1, 8, 5}, {2}, {4}, {1}, {1})), 2 * 5 * 4);
  EXPECT_EQ(view(sliced({3, 8, 5}, {1, 2}, {2, 4}, {0, 1}, {1, 1})), (8 + 2) * 5 * 4);
  EXPECT_EQ(view(sliced({8, 5}, {3}, {2}, {0}, {-1})), 3 * 5 * 4);
  EXPECT_FALSE(view(sliced({8, 5}, {2}, {4}, {1}, {1})));
  EXPECT_FALSE(view(sliced({8, 5}, {0}, {8}, {0}, {2})));
  EXPECT_FALSE(view(sliced({3, 8, 5}, {0, 2}, {2, 4}, {0, 1}, {1, 1})));
  EXPECT_FALSE(view(sliced({Dim::symbol("batch"), 5}, {2}, {4}, {1}, {1})));
}

TEST(Slice, RefusesBadAttributes) {
  EXPECT_THROW(run_op(sliced({8}, {2}, {4}, {1}, {1})), UserError);
  EXPECT_THROW(run_op(sliced({8}, {2}, {4}, {0}, {0})), UserError);
  EXPECT_THROW(run_op(sliced({8}, {2}, {4, 5}, {0}, {1})), UserError);
  EXPECT_THROW(run_op(sliced({8, 8}, {2, 2}, {4, 5}, {0, 0}, {1, 1})), UserError);
}

TEST(SliceGrad, AddsToTheSum) {
  const Attrs attrs = {{"starts", Ints{1, 2}}, {"ends", Ints{3, 7}}, {"shape", Shape{4, 9}}};
  const OpCase c = {.op = "slice_grad", .inputs = {{DType::kF32, {2, 5}}, {DType::kF32, {4, 9}}}, .attrs = attrs};
  check_kernels(c);
  const auto got = run_op(c)[0];
  const HostTensor sum = random_tensor(c.inputs[1], 101);
  const HostTensor dy = random_tensor(c.inputs[0], 100);
  EXPECT_EQ(got.floats()[9 + 2], sum.floats()[9 + 2] + dy.floats()[0]);
  EXPECT_EQ(got.floats()[9 + 1], sum.floats()[9 + 1]);
}

// Of several slices of one tensor, one gradient node writes the zeros and the others add to it: no "add" nodes.
TEST(SliceGrad, PartsOfOneTensorAreGatheredInPlace) {
  Builder g;
  const Value x = g.parameter("x", {6, 4}, Init::constant(0));
  const Value a = g("slice", {x}, {{"starts", Ints{0}}, {"ends", Ints{3}}});
  const Value b = g("slice", {x}, {{"starts", Ints{2}}, {"ends", Ints{6}}});
  const Value joined = g("concat", {a, b}, {{"axis", std::int64_t{0}}});
  const Value flat = g("reshape", {joined}, {{"shape", Shape{1, 28}}});
  const Value first = g("slice", {flat}, {{"axes", Ints{1}}, {"starts", Ints{14}}, {"ends", Ints{15}}});
  const Node node = g.graph().nodes.at(1);
  Values sums = {g("slice_grad", {a}, {{"starts", Ints{0}}, {"ends", Ints{3}}, {"shape", Shape{6, 4}}})};
  const Values dy = {b};
  const std::vector<bool> wanted = {true};
  GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted, .sums = sums};
  const Value dx = node.op->gradient(call).at(0);
  EXPECT_TRUE(call.taken.at(0));
  const Node& made = g.graph().nodes.back();
  EXPECT_EQ(made.outputs.at(0), dx);
  EXPECT_EQ(made.inputs.at(1), sums[0]);
  EXPECT_TRUE(first);
}

}  // namespace
}  // namespace neap
