#include "ops/relu/gate.h"

#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Gate {
  std::string op;
  Attrs attrs = {};
};
std::vector<Gate> gates() {
  return {{"relu"},
          {"leaky_relu", {{"alpha", 0.1}}},
          {"thresholded_relu", {{"alpha", 0.3}}},
          {"clip", {{"min", -0.4}, {"max", 0.6}}},
          {"clip", {{"max", 0.25}}},
          {"hard_sigmoid", {{"alpha", 0.8}, {"beta", 0.4}}}};
}

// Away from the corners, which are at multiples of 0.05.
HostTensor off_corners(const Shape& shape) {
  HostTensor t({DType::kF32, shape});
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    t.floats()[i] = static_cast<float>((i * 7919 + 13) % 41 - 20) * 0.05F + 0.02F;
  }
  return t;
}

TEST(Gate, KernelsAgreeAndGradientHolds) {
  for (const Gate& gate : gates()) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{8}, Shape{9}, Shape{16}, Shape{3, 5, 7}, Shape{31}, Shape{4109}}) {
      OpCase c{.op = gate.op, .inputs = {{DType::kF32, shape}}, .attrs = gate.attrs, .step = 5e-3};
      c.given[0] = off_corners(shape);
      check_op(c);
    }
  }
}

TEST(Gate, GradientKernelsAgreeWithAnyMask) {
  for (const Gate& gate : gates()) {
    for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 33, 4096, 4097, 20001}) {
      const OpCase c{.op = gate.op + "_grad", .inputs = {{DType::kF32, {n}}, {DType::kBits, {n}}}, .attrs = gate.attrs};
      check_kernels(c);
    }
  }
}

TEST(Gate, InPlaceAndOnAnyNumberOfThreads) {
  for (const Gate& gate : gates()) {
    const OpCase c{.op = gate.op, .inputs = {{DType::kF32, {20003}}}, .attrs = gate.attrs};
    check_in_place(c);
    check_threads(c);
    OpCase grad = c;
    grad.op += "_grad";
    grad.inputs.push_back({DType::kBits, {20003}});
    check_in_place(grad);
    check_threads(grad);
  }
}

TEST(Gate, OneBitAnElement) {
  const auto out = run_op({.op = "relu",
                           .inputs = {{DType::kF32, {10}}},
                           .given = {{0, tensor_of({10}, {1, -1, 2, -2, 0, 3, -0.0F, 4, kNan, -kInf})}}});
  ASSERT_EQ(out[1].data.size(), 2U);
  EXPECT_EQ(std::to_integer<int>(out[1].data[0]), 0b10100101);
  EXPECT_EQ(std::to_integer<int>(out[1].data[1]), 0b01);  // NaN passes, in both directions
  EXPECT_TRUE(std::isnan(out[0].floats()[8]));
  EXPECT_EQ(out[0].floats()[9], 0);
}

TEST(Gate, SpecialValuesInEveryBuild) {
  const std::vector<float> x = {kNan,     kInf, -kInf, 0.0F, -0.0F, 0x1p-149F, -0x1p-149F, 1e-40F, 3.4e38F,
                                -3.4e38F, 0.3F, -0.4F, 0.6F, 0.25F, 1.0F,      -1.0F,      0.5F};
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Gate& gate : gates()) {
    const auto want = run_op(
        {.op = gate.op, .inputs = {{DType::kF32, {n}}}, .attrs = gate.attrs, .given = {{0, tensor_of({n}, x)}}}, "ref");
    const auto call = ops::gate_call({.op = &op_named(gate.op), .attrs = gate.attrs});
    for (const Isa build : {Isa::kBase, Isa::kV3, Isa::kV4}) {
      if (build > isa()) continue;
      const GateTable& table = build == Isa::kBase ? isa_base::gate_table()
                               : build == Isa::kV3 ? isa_v3::gate_table()
                                                   : isa_v4::gate_table();
      std::vector<float> y(x.size());
      std::vector<std::byte> mask(want[1].data.size());
      table.forward[static_cast<int>(call.fn)](x.data(), y.data(), reinterpret_cast<std::uint8_t*>(mask.data()), n,
                                               call.args);
      EXPECT_EQ(mask, want[1].data) << gate.op;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float expected = want[0].floats()[i];
        EXPECT_TRUE(y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))) << gate.op << "(" << x[i] << ")";
      }
    }
  }
}

TEST(Gate, NothingFlowsThroughAClosedRelu) {
  HostTensor mask({DType::kBits, {2}});
  mask.data[0] = std::byte{0b10};
  const auto out = run_op({.op = "relu_grad",
                           .inputs = {{DType::kF32, {2}}, {DType::kBits, {2}}},
                           .given = {{0, tensor_of({2}, {kInf, kInf})}, {1, mask}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0, kInf}));
}

TEST(Gate, MaskMayBeLeftOut) {
  const OpDef& op = op_named("relu");
  EXPECT_EQ(op.optional_outputs, 2U);
  const TensorType type{DType::kF32, {37}};
  OpCall call{.op = &op, .inputs = {type}};
  call.outputs = op.infer(call);
  const HostTensor x = random_tensor(type, 1);
  for (const char* kernel : {"simd", "ref"}) {
    HostTensor y(type);
    const std::byte* in[] = {x.data.data()};
    std::byte* out[] = {y.data.data(), nullptr};
    Stream stream;
    prepare_cpu_kernel(call, kernel)->launch({.inputs = in, .outputs = out}, stream);
    for (int i = 0; i < 37; ++i) EXPECT_EQ(y.floats()[i], std::max(0.0F, x.floats()[i]));
  }
}

TEST(Gate, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "relu", .inputs = {{DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "relu_grad", .inputs = {{DType::kF32, {4}}, {DType::kBits, {5}}}}), UserError);
  EXPECT_THROW(run_op({.op = "relu_grad", .inputs = {{DType::kF32, {4}}, {DType::kF32, {4}}}}), UserError);
}

}  // namespace
}  // namespace neap
