#include <bit>
#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr DType kAll[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI64,  DType::kI32, DType::kI8,
                          DType::kU8,  DType::kU16, DType::kU64,  DType::kBool, DType::kBits};

Attrs to(DType type) { return {{"to", std::string(name(type))}}; }

HostTensor cast_to(DType type, const HostTensor& x, std::string_view kernel = {}) {
  return run_op({.op = "cast", .inputs = {x.type}, .attrs = to(type), .given = {{0, x}}}, kernel)[0];
}

TEST(Cast, EveryPairOfTypes) {
  // 0 and 1 mean the same in all of them.
  const HostTensor start = tensor_of({19}, {0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1});
  for (const DType from : kAll) {
    const HostTensor x = cast_to(from, start);
    EXPECT_EQ(x.type.dtype, from);
    for (const DType type : kAll) {
      EXPECT_EQ(values_of(cast_to(DType::kF32, cast_to(type, x))), values_of(start)) << name(from) << " " << name(type);
      check_kernels({.op = "cast", .inputs = {x.type}, .attrs = to(type), .given = {{0, x}}});
    }
  }
}

// Around every f16 and bf16 number: itself and the ties between neighbours; special values.
HostTensor many_floats() {
  std::vector<float> all = {kInf,    -kInf,   std::numeric_limits<float>::quiet_NaN(), 65519.9F, 65520.0F,
                            3.4e38F, 3.39e38F};
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 0x1000) all.push_back(std::bit_cast<float>(bits));
  for (std::size_t i = 0, n = all.size(); i < n; i += 3) all.push_back(-all[i]);
  return tensor_of({static_cast<std::int64_t>(all.size())}, all);
}

TEST(Cast, SmallFloatsAreRoundedToNearestEven) {
  const HostTensor x = many_floats();
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const HostTensor want = cast_to(type, x, "ref");
    EXPECT_EQ(cast_to(type, x, "simd").data, want.data);
    const std::vector<float> back = values_of(cast_to(DType::kF32, want, "simd"));
    const std::vector<float> back_ref = values_of(cast_to(DType::kF32, want, "ref"));
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_TRUE(back[i] == back_ref[i] || (std::isnan(back[i]) && std::isnan(back_ref[i])));
    }
  }
}

TEST(Cast, KnownBits) {
  HostTensor half = cast_to(DType::kF16, tensor_of({4}, {1.0F, -2.0F, 65504.0F, 0x1p-24F}));
  EXPECT_EQ(half.as<std::uint16_t>()[0], 0x3C00);
  EXPECT_EQ(half.as<std::uint16_t>()[1], 0xC000);
  EXPECT_EQ(half.as<std::uint16_t>()[2], 0x7BFF);
  EXPECT_EQ(half.as<std::uint16_t>()[3], 0x0001);
  HostTensor brain = cast_to(DType::kBF16, tensor_of({2}, {1.00390625F, 1.01171875F}));  // ties
  EXPECT_EQ(brain.as<std::uint16_t>()[0], 0x3F80);
  EXPECT_EQ(brain.as<std::uint16_t>()[1], 0x3F82);
}

TEST(Cast, FloatsToIntegersAreCutAndBounded) {
  const HostTensor x = tensor_of({6}, {1.9F, -1.9F, 1e30F, -1e30F, std::numeric_limits<float>::quiet_NaN(), 300});
  HostTensor i32 = cast_to(DType::kI32, x);
  EXPECT_EQ(std::vector<std::int32_t>(i32.as<std::int32_t>(), i32.as<std::int32_t>() + 6),
            (std::vector<std::int32_t>{1, -1, std::numeric_limits<std::int32_t>::max(),
                                       std::numeric_limits<std::int32_t>::min(), 0, 300}));
  HostTensor u8 = cast_to(DType::kU8, x);
  EXPECT_EQ(std::vector<int>(u8.as<std::uint8_t>(), u8.as<std::uint8_t>() + 6),
            (std::vector<int>{1, 0, 255, 0, 0, 255}));
  HostTensor i64 = cast_to(DType::kI64, x);
  EXPECT_EQ(i64.as<std::int64_t>()[2], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(i64.as<std::int64_t>()[3], std::numeric_limits<std::int64_t>::min());
}

TEST(Cast, GradientCastsBack) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {5});
  const Value y = g("cast", {x}, to(DType::kBF16));
  const Value dy = g.input("dy", DType::kBF16, {5});
  const Node node = g.graph().nodes[0];
  GradientCall call{.g = g, .node = node, .dy = {dy}, .wanted = {true}};
  const Values dx = node.op->gradient(call);
  EXPECT_EQ(g.type(dx[0]).text(), "f32[5]");
  EXPECT_EQ(g.type(y).text(), "bf16[5]");
}

TEST(Cast, ToItsOwnTypeIsAView) {
  const OpDef& op = op_named("cast");
  OpCall call{.op = &op, .attrs = to(DType::kF32), .inputs = {TensorType{DType::kF32, {3}}}};
  EXPECT_EQ(op.view_offset(call), 0);
  call.attrs = to(DType::kI32);
  EXPECT_EQ(op.view_offset(call), std::nullopt);
}

TEST(Cast, InPlaceAndOnAnyNumberOfThreads) {
  check_in_place({.op = "cast", .inputs = {{DType::kF32, {20001}}}, .attrs = to(DType::kI32)});
  check_in_place({.op = "cast", .inputs = {{DType::kI32, {20001}}}, .attrs = to(DType::kF32)});
  check_threads({.op = "cast", .inputs = {{DType::kF32, {20001}}}, .attrs = to(DType::kF16)});
}

TEST(Cast, RefusesUnknownTypes) {
  EXPECT_THROW(run_op({.op = "cast", .inputs = {{DType::kF32, {4}}}, .attrs = {{"to", std::string("f8")}}}), UserError);
  EXPECT_THROW(run_op({.op = "cast", .inputs = {{DType::kF32, {4}}}}), UserError);
}

}  // namespace
}  // namespace neap
