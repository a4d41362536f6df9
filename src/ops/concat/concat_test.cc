#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

OpCase joined(const std::vector<Shape>& shapes, std::int64_t axis) {
  OpCase c = {.op = "concat", .attrs = {{"axis", axis}}};
  for (const Shape& shape : shapes) c.inputs.push_back({DType::kF32, shape});
  return c;
}

TEST(Concat, KernelsAgreeAndGradientHolds) {
  check_op(joined({{3}, {4}}, 0));
  check_op(joined({{3}}, 0));
  check_op(joined({{3, 2}, {1, 2}, {5, 2}}, 0));
  check_op(joined({{3, 2}, {3, 7}}, -1));
  check_op(joined({{2, 3, 4}, {2, 1, 4}, {2, 6, 4}}, 1));
}

TEST(Concat, InputsInOrder) {
  const OpCase c = joined({{2, 2}, {2, 1}}, 1);
  const auto y = run_op(c)[0];
  EXPECT_EQ(y.floats()[2], random_tensor(c.inputs[1], 101).floats()[0]);
  EXPECT_EQ(y.floats()[3], random_tensor(c.inputs[0], 100).floats()[2]);
}

std::string shape_of(const std::vector<Shape>& shapes, std::int64_t axis) {
  Builder g;
  Values x;
  for (std::size_t i = 0; i < shapes.size(); ++i) x.push_back(g.input("x" + std::to_string(i), DType::kF32, shapes[i]));
  return g.shape(g("concat", x, {{"axis", axis}})).text();
}

TEST(Concat, Symbolic) {
  const Dim batch = Dim::symbol("batch");
  EXPECT_EQ(shape_of({{batch, 3}, {batch, 4}}, 1), "[batch,7]");
  EXPECT_EQ(shape_of({{batch, 3}, {batch, 3}, {batch, 3}}, 0), "[3*batch,3]");
  EXPECT_EQ(shape_of({{batch, 3}, {5, 3}}, 0), "[?,3]");
  EXPECT_EQ(shape_of({{batch, 3}, {5, 3}}, 1), "[5,6]");
}

TEST(Concat, PartsLieInPlaceAlongTheOutermostAxis) {
  const OpDef& op = op_named("concat");
  OpCall call{.op = &op,
              .attrs = {{"axis", std::int64_t{0}}},
              .inputs = {TensorType{DType::kF32, {2, 3}}, TensorType{DType::kF32, {4, 3}}}};
  EXPECT_EQ(op.part_offset(call, 0), 0);
  EXPECT_EQ(op.part_offset(call, 1), 2 * 3 * 4);
  call.attrs = {{"axis", std::int64_t{1}}};
  EXPECT_FALSE(op.part_offset(call, 1));
  call.inputs = {TensorType{DType::kF32, {1, 3}}, TensorType{DType::kF32, {1, 4}}};
  EXPECT_EQ(op.part_offset(call, 1), 3 * 4);
}

// A part that the plan let its producer write where it belongs is left alone.
TEST(Concat, LeavesPartsInPlace) {
  OpCall call{.op = &op_named("concat"),
              .attrs = {{"axis", std::int64_t{0}}},
              .inputs = {TensorType{DType::kF32, {2}}, TensorType{DType::kF32, {3}}}};
  call.outputs = call.op->infer(call);
  const auto kernel = prepare_cpu_kernel(call);
  std::vector<float> y = {1, 2, 0, 0, 0};
  std::vector<float> b = {3, 4, 5};
  const std::byte* in[] = {reinterpret_cast<std::byte*>(y.data()), reinterpret_cast<std::byte*>(b.data())};
  std::byte* out[] = {reinterpret_cast<std::byte*>(y.data())};
  Stream stream;
  kernel->launch({.inputs = in, .outputs = out}, stream);
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(Concat, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op(joined({{3, 2}, {4, 3}}, 0)), UserError);
  EXPECT_THROW(run_op(joined({{3, 2}, {4}}, 0)), UserError);
  EXPECT_THROW(run_op(joined({{3, 2}, {3, 2}}, 2)), UserError);
  OpCase mixed = joined({{3}, {3}}, 0);
  mixed.inputs[1].dtype = DType::kI32;
  EXPECT_THROW(run_op(mixed), UserError);
}

}  // namespace
}  // namespace neap
