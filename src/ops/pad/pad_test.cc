#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

OpCase pad_case(Shape x, Ints pads, const std::string& mode = "constant", DType type = DType::kF32) {
  return {.op = "pad",
          .inputs = {{type, std::move(x)}},
          .attrs = {{"pads", std::move(pads)}, {"mode", mode}, {"value", 2.5}}};
}

const std::string kModes[] = {"constant", "reflect", "edge", "wrap"};

TEST(Pad, KernelsAgreeAndGradientHolds) {
  for (const std::string& mode : kModes) {
    check_op(pad_case({2, 4, 5, 3}, {0, 1, 2, 0, 0, 3, 1, 0}, mode));
    check_op(pad_case({5}, {2, 4}, mode));
    check_op(pad_case({3, 4}, {1, 2, 2, 1}, mode));
    check_op(pad_case({2, 3, 4}, {0, 0, 0, 0, 0, 0}, mode));
  }
}

TEST(Pad, NegativePadsCrop) {
  for (const std::string& mode : kModes) {
    check_op(pad_case({5, 6, 2}, {-1, 1, 0, -2, -3, 0}, mode));
    check_op(pad_case({8}, {-3, 4}, mode));
  }
}

void expect_padded(Ints pads, const std::string& mode, const std::vector<float>& want) {
  OpCase c = pad_case({4}, std::move(pads), mode);
  c.given[0] = HostTensor(c.inputs[0]);
  for (int i = 0; i < 4; ++i) c.given[0].floats()[i] = static_cast<float>(i);
  const auto out = run_op(c);
  ASSERT_EQ(out[0].type.elements(), static_cast<std::int64_t>(want.size())) << mode;
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(out[0].floats()[i], want[i]) << mode << " " << i;
}

TEST(Pad, Modes) {
  expect_padded({2, 1}, "constant", {2.5, 2.5, 0, 1, 2, 3, 2.5});
  expect_padded({2, 1}, "reflect", {2, 1, 0, 1, 2, 3, 2});
  expect_padded({2, 1}, "edge", {0, 0, 0, 1, 2, 3, 3});
  expect_padded({2, 1}, "wrap", {2, 3, 0, 1, 2, 3, 0});
  expect_padded({-1, 2}, "constant", {1, 2, 3, 2.5, 2.5});
  expect_padded({-1, 2}, "reflect", {1, 2, 3, 2, 1});
}

TEST(Pad, OtherTypes) {
  for (const DType type : {DType::kI64, DType::kI32, DType::kU8, DType::kBool}) {
    check_kernels(pad_case({3, 4}, {1, 1, 0, 2}, "constant", type));
  }
}

TEST(Pad, SymbolicAxesThatAreNotPaddedPassThrough) {
  Builder g;
  const Dim n = Dim::symbol("batch");
  const Value x = g.input("x", DType::kF32, {n, 4});
  EXPECT_EQ(g.shape(g("pad", {x}, {{"pads", Ints{0, 1, 0, 1}}})), (Shape{n, 6}));
}

TEST(Pad, BadInput) {
  EXPECT_THROW(run_op(pad_case({4, 4}, {1, 1})), UserError);
  EXPECT_THROW(run_op(pad_case({4}, {1, 1}, "mirror")), UserError);
  EXPECT_THROW(run_op(pad_case({4}, {4, 0}, "reflect")), UserError);
  EXPECT_THROW(run_op(pad_case({4}, {-3, -2})), UserError);
  EXPECT_THROW(run_op(pad_case({4}, {-4, 2}, "edge")), UserError);
}

}  // namespace
}  // namespace neap
