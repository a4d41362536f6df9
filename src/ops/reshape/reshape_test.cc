#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

Shape shape_of(const std::string& op, const Shape& from, Attrs attrs, DType dtype = DType::kF32) {
  Builder g;
  const Value y = g(op, {g.input("x", dtype, from)}, std::move(attrs));
  EXPECT_EQ(g.type(y).dtype, dtype);
  return g.shape(y);
}

Shape reshaped(const Shape& from, const Shape& to) { return shape_of("reshape", from, {{"shape", to}}); }

const Dim kBatch = Dim::symbol("batch");
const Dim kTime = Dim::symbol("time");

TEST(Reshape, KeepsElementsAndGradient) {
  check_op({.op = "reshape", .inputs = {f32({2, 3, 4})}, .attrs = {{"shape", Shape{4, -1}}}});
  check_op({.op = "reshape", .inputs = {f32({2, 3, 4})}, .attrs = {{"shape", Shape{0, 12}}}});
  check_op({.op = "reshape", .inputs = {f32({1})}, .attrs = {{"shape", Shape{}}}});
  check_op({.op = "flatten", .inputs = {f32({2, 3, 4})}});
  check_op({.op = "squeeze", .inputs = {f32({2, 1, 4, 1})}, .attrs = {{"axes", Ints{1, -1}}}});
  check_op({.op = "unsqueeze", .inputs = {f32({2, 4})}, .attrs = {{"axes", Ints{0, -1}}}});
}

TEST(Reshape, ElementsStayInOrder) {
  const OpCase c = {.op = "reshape", .inputs = {f32({2, 6})}, .attrs = {{"shape", Shape{3, 4}}}};
  EXPECT_EQ(run_op(c)[0].data, random_tensor(c.inputs[0], 100).data);
}

TEST(Reshape, TellsTheOpenAxis) {
  EXPECT_EQ(reshaped({2, 3, 4}, {-1}).text(), "[24]");
  EXPECT_EQ(reshaped({2, 3, 4}, {0, -1}).text(), "[2,12]");
  EXPECT_EQ(reshaped({kBatch, kTime, 384}, {0, 0, 6, 64}).text(), "[batch,time,6,64]");
  EXPECT_EQ(reshaped({kBatch, kTime, 384}, {0, 0, -1, 64}).text(), "[batch,time,6,64]");
  EXPECT_EQ(reshaped({kBatch * kTime, 384}, {kBatch, -1, 384}).text(), "[batch,time,384]");
  EXPECT_EQ(reshaped({kBatch, kTime, 384}, {kBatch * kTime, 384}), (Shape{kBatch * kTime, 384}));
  EXPECT_EQ(reshaped({Dim::unknown(), 8}, {-1, 4}).text(), "[2*?,4]");
}

TEST(Reshape, WorksOnAnyElementType) {
  EXPECT_EQ(shape_of("reshape", {4, 2}, {{"shape", Shape{8}}}, DType::kBits).text(), "[8]");
  EXPECT_EQ(shape_of("reshape", {4, 2}, {{"shape", Shape{8}}}, DType::kBF16).text(), "[8]");
}

TEST(Reshape, RefusesWhatCannotFit) {
  EXPECT_THROW(reshaped({2, 3}, {7}), UserError);
  EXPECT_THROW(reshaped({2, 3}, {4, -1}), UserError);
  EXPECT_THROW(reshaped({2, 3}, {-1, -1}), UserError);
  EXPECT_THROW(reshaped({2, 3}, {-2, 3}), UserError);
  EXPECT_THROW(reshaped({2, 3}, {2, 3, 0}), UserError);
  EXPECT_THROW(reshaped({kBatch, 3}, {kBatch, 4}), UserError);
  EXPECT_THROW(shape_of("reshape", {2}, {}), UserError);
}

TEST(Flatten, CutsAtTheAxis) {
  EXPECT_EQ(shape_of("flatten", {kBatch, 3, 4}, {}).text(), "[batch,12]");
  EXPECT_EQ(shape_of("flatten", {2, 3, 4}, {{"axis", std::int64_t{0}}}).text(), "[1,24]");
  EXPECT_EQ(shape_of("flatten", {2, 3, 4}, {{"axis", std::int64_t{3}}}).text(), "[24,1]");
  EXPECT_EQ(shape_of("flatten", {2, 3, 4}, {{"axis", std::int64_t{-1}}}).text(), "[6,4]");
  EXPECT_THROW(shape_of("flatten", {2, 3}, {{"axis", std::int64_t{3}}}), UserError);
}

TEST(Squeeze, TakesOnlyAxesOfLengthOne) {
  EXPECT_EQ(shape_of("squeeze", {kBatch, 1, 4}, {{"axes", Ints{1}}}).text(), "[batch,4]");
  EXPECT_THROW(shape_of("squeeze", {2, 1, 4}, {{"axes", Ints{0}}}), UserError);
  EXPECT_THROW(shape_of("squeeze", {2, 1, 4}, {{"axes", Ints{3}}}), UserError);
  EXPECT_THROW(shape_of("squeeze", {2, 1, 4}, {{"axes", Ints{1, -2}}}), UserError);
}

TEST(Unsqueeze, CountsAxesInTheOutput) {
  EXPECT_EQ(shape_of("unsqueeze", {kBatch, 4}, {{"axes", Ints{0, 2}}}).text(), "[1,batch,1,4]");
  EXPECT_THROW(shape_of("unsqueeze", {4}, {{"axes", Ints{2}}}), UserError);
  EXPECT_THROW(shape_of("unsqueeze", {4}, {{"axes", Ints{0, 0}}}), UserError);
}

TEST(Reshape, IsAView) {
  for (const char* op : {"reshape", "flatten", "squeeze", "unsqueeze"}) {
    EXPECT_EQ(op_named(op).view_offset({}), std::optional<std::int64_t>(0)) << op;
  }
}

}  // namespace
}  // namespace neap
