#include "ops/op_check.h"

namespace neap {
namespace {

OpCase expanded(Shape from, Shape to) {
  return {.op = "expand", .inputs = {{DType::kF32, std::move(from)}}, .attrs = {{"shape", std::move(to)}}};
}

TEST(Expand, KernelsAgreeAndGradientHolds) {
  check_op(expanded({1}, {7}));
  check_op(expanded({}, {3, 4}));
  check_op(expanded({3, 1}, {3, 40}));
  check_op(expanded({1, 40}, {3, 40}));
  check_op(expanded({2, 1, 4}, {5, 2, 3, 4}));
  check_op(expanded({3, 4}, {1, 1}));
}

TEST(Expand, Symbolic) {
  Builder g;
  const Dim batch = Dim::symbol("batch");
  const Value x = g.input("x", DType::kF32, {1, 4});
  EXPECT_EQ(g.shape(g("expand", {x}, {{"shape", Shape{batch, -1}}})).text(), "[batch,4]");
  EXPECT_EQ(g.shape(g("expand", {x}, {{"shape", Shape{-1, batch, 4}}})).text(), "[1,batch,4]");
}

TEST(Expand, RefusesWhatDoesNotBroadcast) {
  EXPECT_THROW(run_op(expanded({3}, {4})), UserError);
  EXPECT_THROW(run_op(expanded({3}, {-2})), UserError);
}

}  // namespace
}  // namespace neap
