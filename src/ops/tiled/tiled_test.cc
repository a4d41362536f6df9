#include "ops/tiled/tiled.h"

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

TiledStep step(const char* op, std::vector<int> inputs, Attrs attrs = {}) {
  return {.op = &op_named(op), .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

TEST(Tiled, ElementwiseProgramsAgreeWithTheReferences) {
  const TiledProgram program = {.steps = {step("add", {0, 1}), step("sigmoid", {2}), step("mul", {2, 3})}, .axes = 1};
  check_kernels({.op = "fused", .inputs = {f32({700, 300}), f32({300})}, .attrs = to_attrs(program)});
  check_kernels({.op = "fused", .inputs = {f32({2, 3, 5}), f32({5})}, .attrs = to_attrs(program)});
}

TEST(Tiled, AttributesComeBack) {
  const TiledProgram program = {.steps = {step("gelu", {0}, {{"approximate", std::string("tanh")}}),
                                          step("dropout", {2, 1}, {{"p", 0.5}, {"key", std::int64_t{7}}})},
                                .axes = 2};
  const TiledProgram again = program_of(to_attrs(program));
  ASSERT_EQ(again.steps.size(), 2U);
  EXPECT_EQ(again.axes, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.steps[i].op, program.steps[i].op);
    EXPECT_EQ(again.steps[i].inputs, program.steps[i].inputs);
    EXPECT_TRUE(again.steps[i].attrs == program.steps[i].attrs);
  }
}

TEST(Tiled, RefusesWhatMakesNoSense) {
  const auto run = [](const TiledProgram& program) {
    return run_op({.op = "fused", .inputs = {f32({4, 4}), f32({4})}, .attrs = to_attrs(program)});
  };
  EXPECT_THROW(run({.steps = {}, .axes = 1}), UserError);
  EXPECT_THROW(run({.steps = {step("add", {0, 2})}, .axes = 1}), UserError);
  EXPECT_THROW(run({.steps = {step("add", {0, 9})}, .axes = 1}), UserError);
}

TEST(Tiled, KnowsWhatGoesAlongWithRows) {
  const Shape result = {8, 256, 384};
  EXPECT_EQ(row_kind(result, result, 3), RowKind::kRows);
  EXPECT_EQ(row_kind({8, 256, 1}, result, 2), RowKind::kRows);
  EXPECT_EQ(row_kind({8, 256, 1}, result, 3), RowKind::kNeither);
  EXPECT_EQ(row_kind({384}, result, 2), RowKind::kWhole);
  EXPECT_EQ(row_kind({256, 384}, result, 1), RowKind::kWhole);
  EXPECT_EQ(row_kind({256, 384}, result, 2), RowKind::kNeither);
  EXPECT_EQ(row_kind({}, result, 3), RowKind::kWhole);
}

}  // namespace
}  // namespace neap
