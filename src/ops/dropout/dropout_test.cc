#include <cmath>

#include "core/random.h"
#include "ops/dropout/dropout_simd.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

HostTensor rng(std::uint64_t seed, std::uint64_t step, std::uint64_t index) {
  HostTensor t({DType::kU64, {3}});
  t.as<std::uint64_t>()[0] = seed;
  t.as<std::uint64_t>()[1] = step;
  t.as<std::uint64_t>()[2] = index;
  return t;
}

OpCase dropout(std::int64_t n, double p, std::uint64_t index = 0, std::int64_t key = 5) {
  return {.op = "dropout",
          .inputs = {{DType::kF32, {n}}, {DType::kU64, {3}}},
          .attrs = {{"p", p}, {"key", key}},
          .given = {{1, rng(11, 3, index)}},
          .tolerance = 0};
}

TEST(Dropout, KernelsAgreeToTheBitAndGradientHolds) {
  for (const std::int64_t n : {1, 3, 4, 63, 64, 65, 511, 513, 4097, 20003}) {
    for (const std::uint64_t index : {0ULL, 1ULL, 2ULL, 3ULL, 17ULL, (1ULL << 34) - 5}) {
      n < 100 ? check_op(dropout(n, 0.3, index)) : check_kernels(dropout(n, 0.3, index));
    }
  }
}

TEST(Dropout, EveryBuildDrawsTheSame) {
  std::vector<float> x(5003, 1.0F);
  const DropoutArgs args = {.key = 123, .index = 77, .p = 0.25F, .scale = 2.0F};
  std::vector<float> want(x.size());
  isa_base::dropout_table().run(x.data(), want.data(), 5003, args);
  std::vector<float> got(x.size());
  if (isa() >= Isa::kV3) {
    isa_v3::dropout_table().run(x.data(), got.data(), 5003, args);
    EXPECT_EQ(got, want);
  }
  if (isa() >= Isa::kV4) {
    isa_v4::dropout_table().run(x.data(), got.data(), 5003, args);
    EXPECT_EQ(got, want);
  }
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    const bool dropped = unit_float(Philox{123}((77 + i) / 4)[(77 + i) % 4]) < 0.25F;
    ASSERT_EQ(want[i], dropped ? 0.0F : 2.0F);
  }
}

// A part of the batch draws what the whole would have drawn there.
TEST(Dropout, PartsMatchTheWhole) {
  const auto whole = run_op(dropout(1000, 0.5, 40));
  OpCase part = dropout(300, 0.5, 40 + 123);
  part.given[0] = HostTensor({DType::kF32, {300}});
  const HostTensor x = random_tensor({DType::kF32, {1000}}, 100);
  std::copy_n(x.floats() + 123, 300, part.given[0].floats());
  const auto got = run_op(part);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(got[0].floats()[i], whole[0].floats()[i + 123]);
}

TEST(Dropout, DropsTheShareThatWasAsked) {
  const std::int64_t n = 100000;
  OpCase c = dropout(n, 0.2);
  c.given[0] = tensor_of({n}, std::vector<float>(static_cast<std::size_t>(n), 1.0F));
  const auto out = run_op(c);
  double sum = 0;
  int dropped = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += out[0].floats()[i];
    dropped += out[0].floats()[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / static_cast<double>(n), 0.2, 0.005);
  EXPECT_NEAR(sum / static_cast<double>(n), 1, 0.01);
}

TEST(Dropout, KeysDifferAndEdgesHold) {
  EXPECT_NE(values_of(run_op(dropout(100, 0.5, 0, 1))[0]), values_of(run_op(dropout(100, 0.5, 0, 2))[0]));
  EXPECT_EQ(values_of(run_op(dropout(100, 1))[0]), std::vector<float>(100, 0.0F));
  EXPECT_EQ(values_of(run_op(dropout(100, 0))[0]), values_of(random_tensor({DType::kF32, {100}}, 100)));
}

TEST(Dropout, InPlaceAndOnAnyNumberOfThreads) {
  check_in_place(dropout(20003, 0.3, 7));
  check_threads(dropout(20003, 0.3, 7));
}

TEST(Dropout, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op(dropout(4, 1.5)), UserError);
  EXPECT_THROW(run_op(dropout(4, std::nan(""))), UserError);
  OpCase c = dropout(4, 0.5);
  c.attrs = {{"p", 0.5}};
  EXPECT_THROW(run_op(c), UserError);
  c = dropout(4, 0.5);
  c.inputs[1] = {DType::kU64, {2}};
  c.given.clear();
  EXPECT_THROW(run_op(c), UserError);
}

}  // namespace
}  // namespace neap
