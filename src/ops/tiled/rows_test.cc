#include "ops/tiled/rows.h"

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

RowStep step(const char* op, std::vector<int> inputs, int outputs = 1, Attrs attrs = {}) {
  return {.op = &op_named(op), .inputs = std::move(inputs), .attrs = std::move(attrs), .outputs = outputs};
}

constexpr RowInput kRows = RowInput::kRows;
constexpr RowInput kWhole = RowInput::kWhole;

// linear, relu with its mask, linear; the mask and both ends come out. 70 rows in chunks of 16: the last has six.
RowProgram layers() {
  return {.axes = 2,
          .chunk = 16,
          .inputs = {kWhole, kRows, kWhole, kWhole, kWhole},
          .steps = {step("linear", {1, 2, 3}), step("relu", {5}, 2), step("linear", {6, 4})},
          .results = {8, 7}};
}

OpCase case_of(const RowProgram& program) {
  return {.op = "product_rows",
          .inputs = {f32({1}), f32({7, 10, 24}), f32({40, 24}), f32({40}), f32({24, 40})},
          .attrs = to_attrs(program),
          .absent = {0}};
}

TEST(Rows, AgreeWithTheReferencesOverAllRows) { check_kernels(case_of(layers())); }

TEST(Rows, DoNotDependOnTheChunk) {
  RowProgram whole = layers();
  whole.chunk = 70;
  RowProgram single = layers();
  single.chunk = 1;
  const auto want = run_op(case_of(whole), "simd");
  for (const RowProgram& each : {layers(), single}) {
    const auto got = run_op(case_of(each), "simd");
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got[0].data, want[0].data);
    EXPECT_EQ(got[1].data, want[1].data);
  }
}

// Dropout draws from a chunk's own place on, and operands of ones or fewer axes are the same for every row.
TEST(Rows, TakeKeysAndOperandsForAllRows) {
  HostTensor key({DType::kU64, {3}});
  key.as<std::uint64_t>()[0] = 5;
  key.as<std::uint64_t>()[2] = 12;
  RowProgram program = {
      .axes = 1,
      .chunk = 3,
      .inputs = {kRows, RowInput::kKey, RowInput::kBroadcast, kRows},
      .steps = {step("add", {0, 2}), step("dropout", {4, 1}, 1, {{"p", 0.5}, {"key", std::int64_t{7}}}),
                step("mul", {5, 3})},
      .results = {6}};
  const auto run = [&](std::int64_t chunk) {
    program.chunk = chunk;
    return run_op({.op = "norm_rows",
                   .inputs = {f32({10, 6}), key.type, f32({1, 6}), f32({10, 1})},
                   .attrs = to_attrs(program),
                   .given = {{1, key}}});
  };
  EXPECT_EQ(run(3)[0].data, run(10)[0].data);
  EXPECT_EQ(run(4)[0].data, run(10)[0].data);
}

TEST(Rows, AttributesComeBack) {
  const RowProgram program = layers();
  const RowProgram again = row_program_of(to_attrs(program));
  EXPECT_EQ(again.axes, program.axes);
  EXPECT_EQ(again.chunk, program.chunk);
  EXPECT_EQ(again.inputs, program.inputs);
  EXPECT_EQ(again.results, program.results);
  ASSERT_EQ(again.steps.size(), program.steps.size());
  for (std::size_t i = 0; i < again.steps.size(); ++i) {
    EXPECT_EQ(again.steps[i].op, program.steps[i].op);
    EXPECT_EQ(again.steps[i].inputs, program.steps[i].inputs);
    EXPECT_EQ(again.steps[i].outputs, program.steps[i].outputs);
  }
}

TEST(Rows, RefuseWhatMakesNoSense) {
  const auto refused = [](auto change) {
    RowProgram program = layers();
    change(program);
    EXPECT_THROW(run_op(case_of(program)), UserError);
  };
  refused([](RowProgram& p) { p.steps.clear(); });
  refused([](RowProgram& p) { p.results.clear(); });
  refused([](RowProgram& p) { p.results = {1}; });
  refused([](RowProgram& p) { p.results = {9}; });
  refused([](RowProgram& p) { p.chunk = 0; });
  refused([](RowProgram& p) { p.inputs.pop_back(); });
  refused([](RowProgram& p) { p.steps[0].inputs[0] = 8; });
  refused([](RowProgram& p) { p.steps[2].outputs = 2; });
}

// What lies between takes one chunk of the workspace, or none where it can be made in the result's place.
TEST(Rows, TakeTheSpaceOfAChunk) {
  const auto workspace = [](std::int64_t chunk, const std::vector<RowStep>& behind, int result) {
    RowProgram program = {.axes = 1,
                          .chunk = chunk,
                          .inputs = {kWhole, kRows, kWhole, kWhole},
                          .steps = {step("matmul", {1, 2})},
                          .results = {result}};
    program.steps.insert(program.steps.end(), behind.begin(), behind.end());
    OpCall call{.op = &op_named("product_rows"),
                .attrs = to_attrs(program),
                .inputs = {std::nullopt, f32({4096, 8}), f32({8, 256}), f32({256, 8})}};
    call.outputs = call.op->infer(call);
    return prepare_cpu_kernel(call, "simd")->workspace_bytes();
  };
  constexpr std::int64_t kRow = 256 * 4;
  const auto narrow = workspace(128, {step("gelu", {4}), step("matmul", {5, 3})}, 6);
  const auto wide = workspace(256, {step("gelu", {4}), step("matmul", {5, 3})}, 6);
  EXPECT_EQ(wide - narrow, 128 * kRow);
  EXPECT_EQ(workspace(256, {step("gelu", {4})}, 5), workspace(128, {step("gelu", {4})}, 5));
}

}  // namespace
}  // namespace neap
