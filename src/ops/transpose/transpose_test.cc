#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

OpCase transposed(Shape shape, Ints perm, DType dtype = DType::kF32) {
  return {.op = "transpose",
          .inputs = {{dtype, std::move(shape)}},
          .attrs = {{"perm", std::move(perm)}},
          .integer_bound = 200};
}

TEST(Transpose, LastTwoAxes) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{16, 16}, Shape{17, 33}, Shape{100, 7}, Shape{200, 130}}) {
    check_op(transposed(shape, {1, 0}));
  }
  check_op(transposed({5, 40, 70}, {0, 2, 1}));
}

TEST(Transpose, HeadsAndChannels) {
  check_op(transposed({2, 9, 3, 8}, {0, 2, 1, 3}));
  check_op(transposed({2, 3, 9, 64}, {0, 2, 1, 3}));
  check_op(transposed({2, 3, 7, 9}, {0, 2, 3, 1}));
  check_op(transposed({2, 20, 7, 9}, {0, 2, 3, 1}));
  check_op(transposed({2, 7, 9, 20}, {0, 3, 1, 2}));
}

TEST(Transpose, AnyOrder) {
  Ints perm = {0, 1, 2, 3};
  do {
    check_kernels(transposed({3, 18, 5, 17}, perm));
  } while (std::next_permutation(perm.begin(), perm.end()));
  check_op(transposed({2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}));
  check_op({.op = "transpose", .inputs = {{DType::kF32, {2, 3, 4}}}});
}

TEST(Transpose, AnyElementSize) {
  for (const DType dtype : {DType::kU8, DType::kBool, DType::kI8, DType::kI64, DType::kI32, DType::kU64}) {
    check_kernels(transposed({2, 37, 50}, {0, 2, 1}, dtype));
    check_kernels(transposed({16, 3, 32}, {2, 1, 0}, dtype));
  }
}

TEST(Transpose, TwoByteElements) {
  OpCase c = transposed({37, 50}, {1, 0}, DType::kU16);
  HostTensor x(c.inputs[0]);
  for (int i = 0; i < 37 * 50; ++i) x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 31);
  c.given[0] = x;
  check_kernels(c);
  EXPECT_EQ(run_op(c)[0].as<std::uint16_t>()[3 * 37 + 5], x.as<std::uint16_t>()[5 * 50 + 3]);
}

std::optional<std::int64_t> view(Shape shape, Ints perm) {
  const OpDef& op = op_named("transpose");
  OpCall call{.op = &op, .attrs = {{"perm", std::move(perm)}}, .inputs = {TensorType{DType::kF32, std::move(shape)}}};
  return op.view_offset(call);
}

TEST(Transpose, IsAViewWhenOnlyOnesMove) {
  EXPECT_TRUE(view({2, 1, 3}, {1, 0, 2}));
  EXPECT_TRUE(view({2, 3}, {0, 1}));
  EXPECT_FALSE(view({2, 3}, {1, 0}));
  EXPECT_FALSE(view({Dim::symbol("batch"), 1}, {1, 0}));
  check_op(transposed({2, 1, 3}, {1, 0, 2}));
}

TEST(Transpose, Symbolic) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 3, Dim::symbol("time")});
  EXPECT_EQ(g.shape(g("transpose", {x}, {{"perm", Ints{2, 0, 1}}})).text(), "[time,batch,3]");
}

TEST(Transpose, RefusesABadPerm) {
  EXPECT_THROW(run_op(transposed({2, 3}, {0, 0})), UserError);
  EXPECT_THROW(run_op(transposed({2, 3}, {0})), UserError);
  EXPECT_THROW(run_op(transposed({2, 3}, {0, 2})), UserError);
  EXPECT_THROW(run_op(transposed({2, 8}, {1, 0}, DType::kBits)), UserError);
}

}  // namespace
}  // namespace neap
