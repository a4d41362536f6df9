#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Fill, Values) {
  EXPECT_EQ(values_of(run_op({.op = "fill", .attrs = {{"shape", Shape{2, 2}}, {"value", 2.5}}})[0]),
            std::vector<float>(4, 2.5F));
  auto i64 = run_op({.op = "fill", .attrs = {{"shape", Shape{3}}, {"value", -7}, {"dtype", std::string("i64")}}});
  EXPECT_EQ(i64[0].as<std::int64_t>()[2], -7);
  EXPECT_EQ(values_of(run_op({.op = "ones_like", .inputs = {{DType::kF32, {}}}})[0]), std::vector<float>(1, 1.0F));
  EXPECT_EQ(values_of(run_op({.op = "zeros_like", .inputs = {{DType::kF32, {5}}}})[0]), std::vector<float>(5, 0.0F));
}

TEST(Fill, Range) {
  EXPECT_EQ(values_of(run_op({.op = "range", .attrs = {{"shape", Shape{3}}, {"start", 1.0}, {"delta", -0.5}}})[0]),
            (std::vector<float>{1, 0.5F, 0}));
  auto i64 = run_op({.op = "range", .attrs = {{"shape", Shape{4}}, {"dtype", std::string("i64")}}});
  EXPECT_EQ(i64[0].as<std::int64_t>()[3], 3);
}

TEST(Fill, SymbolicShapesAreBound) {
  Builder g;
  g.output("y", g("range", {}, {{"shape", Shape{Dim::symbol("time")}}, {"dtype", std::string("i64")}}));
  const Graph bound = bind(g.graph(), {{"time", 6}});
  auto values = evaluate(bound, {});
  EXPECT_EQ(values[0].type.text(), "i64[6]");
  EXPECT_EQ(values[0].as<std::int64_t>()[5], 5);
}

TEST(Fill, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "fill", .attrs = {{"value", 1.0}}}), UserError);
  EXPECT_THROW(run_op({.op = "fill", .attrs = {{"shape", Shape{1}}, {"value", 1e30}, {"dtype", std::string("i32")}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "fill", .attrs = {{"shape", Shape{1}}, {"dtype", std::string("bits")}}}), UserError);
  EXPECT_THROW(run_op({.op = "range", .attrs = {{"shape", Shape{300}}, {"dtype", std::string("u8")}}}), UserError);
  EXPECT_THROW(run_op({.op = "range", .attrs = {{"shape", Shape{2, 2}}}}), UserError);
}

}  // namespace
}  // namespace neap
