#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

OpCase pieces(Shape shape, std::int64_t axis, Ints sizes) {
  const std::size_t n = sizes.size();
  OpCase c = {.op = "split", .inputs = {{DType::kF32, std::move(shape)}}, .attrs = {{"axis", axis}, {"sizes", sizes}}};
  c.flows.clear();
  for (std::size_t i = 0; i < n; ++i) c.flows.push_back(i);
  return c;
}

TEST(Split, KernelsAgreeAndGradientHolds) {
  check_op(pieces({7}, 0, {2, 5}));
  check_op(pieces({6, 4}, 0, {1, 2, 3}));
  check_op(pieces({3, 12}, -1, {4, 4, 4}));
  check_op(pieces({2, 9, 5}, 1, {1, 3, 5}));
  check_op(pieces({2, 9}, 1, {9}));
}

TEST(Split, GradientWithMissingPieces) {
  OpCase c = pieces({2, 9, 5}, 1, {1, 3, 5});
  c.flows = {1};
  check_op(c);
  c.flows = {0, 2};
  check_op(c);
}

TEST(Split, PiecesInOrder) {
  const OpCase c = pieces({2, 5}, 1, {2, 3});
  const auto out = run_op(c);
  const HostTensor x = random_tensor(c.inputs[0], 100);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].floats()[2], x.floats()[5]);
  EXPECT_EQ(out[1].floats()[0], x.floats()[2]);
}

TEST(Split, EqualParts) {
  Builder g;
  const Value x = g.input("x", DType::kI32, {Dim::symbol("batch"), 12});
  const Values y = g.add("split", {x}, {{"axis", std::int64_t{1}}, {"parts", std::int64_t{3}}});
  ASSERT_EQ(y.size(), 3U);
  EXPECT_EQ(g.type(y[2]).text(), "i32[batch,4]");
  EXPECT_THROW(g.add("split", {x}, {{"axis", std::int64_t{1}}, {"parts", std::int64_t{5}}}), UserError);
  EXPECT_THROW(g.add("split", {x}, {{"axis", std::int64_t{1}}, {"parts", std::int64_t{0}}}), UserError);
}

TEST(Split, RefusesBadSizes) {
  EXPECT_THROW(run_op(pieces({7}, 0, {2, 4})), UserError);
  EXPECT_THROW(run_op(pieces({7}, 0, {8, -1})), UserError);
  EXPECT_THROW(run_op(pieces({7}, 0, {})), UserError);
  EXPECT_THROW(run_op(pieces({7}, 1, {7})), UserError);
}

}  // namespace
}  // namespace neap
