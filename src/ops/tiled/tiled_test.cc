#include "ops/tiled/tiled.h"

#include <array>

#include "device/device.h"
#include "device/factored_kernel.h"
#include "ops/op_check.h"
#include "ops/tiled/tiled_kernel.h"

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

// Chunks of a whole number of rows, and a rest; dropout counts its random numbers from the row on which a chunk begins.
TEST(Tiled, ResultsDoNotDependOnTheFactor) {
  constexpr std::int64_t kRows = 1000;
  constexpr std::int64_t kColumns = 300;
  const TiledProgram program = {.steps = {step("add", {0, 1}), step("gelu", {3}),
                                          step("dropout", {4, 2}, {{"p", 0.5}, {"key", std::int64_t{7}}})},
                                .axes = 1};
  const std::vector<std::optional<TensorType>> inputs = {f32({kRows, kColumns}), f32({kColumns}),
                                                         TensorType{DType::kU64, {3}}};
  const OpCall call{
      .op = &op_named("fused"), .inputs = inputs, .outputs = {f32({kRows, kColumns})}, .attrs = to_attrs(program)};
  std::vector<float> x(kRows * kColumns);
  std::vector<float> bias(kColumns, 0.25F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1013) / 500 - 1;
  const std::array<std::uint64_t, 3> key = {1, 2, 0};
  Prepared prepared = ops::tiled_own(call);
  auto& kernel = dynamic_cast<FactoredKernel&>(*std::get<std::unique_ptr<Kernel>>(prepared));
  ASSERT_EQ(kernel.factor_names().size(), 4U);
  std::vector<std::byte> workspace(static_cast<std::size_t>(kernel.workspace_bytes()));
  const std::array in = {reinterpret_cast<const std::byte*>(x.data()), reinterpret_cast<const std::byte*>(bias.data()),
                         reinterpret_cast<const std::byte*>(key.data())};
  const auto device = make_cpu_device(1);
  std::vector<std::vector<float>> results;
  for (std::size_t factor = 0; factor < 4; ++factor) {
    kernel.fix_factor(factor);
    std::vector<float>& y = results.emplace_back(x.size());
    const std::array out = {reinterpret_cast<std::byte*>(y.data())};
    kernel.launch({.inputs = in, .outputs = out, .workspace = workspace.data()}, device->stream());
  }
  for (std::size_t factor = 1; factor < 4; ++factor) EXPECT_EQ(results[factor], results[0]) << factor;
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
