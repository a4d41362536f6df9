#include <omp.h>

#include <cmath>

#include "core/random.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
const Attrs kCausal = {{"causal", std::int64_t{1}}};
const TensorType kRng = {DType::kU64, {3}};

// [batch, time, heads, depth] three times.
std::vector<TensorType> self(std::int64_t batch, std::int64_t time, std::int64_t heads, std::int64_t depth) {
  return std::vector<TensorType>(3, f32({batch, time, heads, depth}));
}

OpCase with(OpCase c, double low, double high) {
  c.low = low;
  c.high = high;
  return c;
}

TEST(Attention, KernelsAgreeAndGradientHolds) {
  for (const Attrs& attrs : {Attrs{}, kCausal}) {
    check_op({.op = "attention", .inputs = self(1, 1, 1, 1), .attrs = attrs});
    check_op({.op = "attention", .inputs = self(2, 3, 2, 4), .attrs = attrs});
    check_op({.op = "attention", .inputs = self(1, 17, 3, 5), .attrs = attrs});
  }
}

TEST(Attention, TilesOfEverySize) {
  for (const Attrs& attrs : {Attrs{}, kCausal}) {
    for (const std::int64_t time : {15, 16, 63, 64, 65, 130, 193}) {
      for (const std::int64_t depth : {8, 64, 70, 130, 300}) {
        const OpCase c = {.op = "attention", .inputs = self(1, time, 2, depth), .attrs = attrs, .tolerance = 3e-5};
        check_kernels(c);
        check_kernels(with({.op = "attention_grad",
                            .inputs = {f32({1, time, 2, depth}), f32({1, time, 2, depth}), f32({1, time, 2, depth}),
                                       f32({1, time, 2, depth}), f32({1, time, 2, depth}), f32({1, 2, time})},
                            .attrs = attrs,
                            .tolerance = 1e-4},
                           -0.5, 0.5));
      }
    }
  }
}

TEST(Attention, GradientOverSeveralTiles) {
  for (const Attrs& attrs : {Attrs{}, kCausal}) {
    check_gradient({.op = "attention", .inputs = self(1, 70, 1, 6), .attrs = attrs});
  }
}

TEST(Attention, PackedIsTheSame) {
  for (const Attrs& attrs : {Attrs{}, kCausal}) {
    check_op({.op = "attention", .inputs = {f32({2, 5, 3, 2, 4})}, .attrs = attrs});
    check_op({.op = "attention", .inputs = {f32({1, 67, 3, 2, 9})}, .attrs = attrs, .tolerance = 2e-5});
  }
}

TEST(Attention, HeadsInGroups) {
  check_op({.op = "attention",
            .inputs = {f32({2, 5, 6, 4}), f32({2, 7, 2, 4}), f32({2, 7, 2, 4})},
            .attrs = {{"scale", 0.7}}});
  check_op({.op = "attention", .inputs = {f32({1, 5, 4, 3}), f32({1, 5, 1, 3}), f32({1, 5, 1, 3})}, .attrs = kCausal});
}

TEST(Attention, OtherNumberOfKeys) {
  for (const std::int64_t offset : {-70, -3, 0, 2, 5, 66}) {
    check_op({.op = "attention",
              .inputs = {f32({1, 69, 1, 3}), f32({1, 75, 1, 3}), f32({1, 75, 1, 3})},
              .attrs = {{"causal", std::int64_t{1}}, {"causal_offset", offset}},
              .tolerance = 2e-5});
  }
  check_op({.op = "attention", .inputs = {f32({1, 2, 1, 3}), f32({1, 130, 1, 3}), f32({1, 130, 1, 3})}});
  check_op(
      {.op = "attention", .inputs = {f32({1, 130, 1, 3}), f32({1, 2, 1, 3}), f32({1, 2, 1, 3})}, .attrs = kCausal});
}

TEST(Attention, AddedMasksBroadcast) {
  for (const Shape& mask :
       {Shape{2, 3, 20, 70}, Shape{20, 70}, Shape{2, 1, 1, 70}, Shape{3, 20, 1}, Shape{1}, Shape{}}) {
    auto inputs = std::vector<TensorType>{f32({2, 20, 3, 4}), f32({2, 70, 3, 4}), f32({2, 70, 3, 4}), f32(mask)};
    check_op({.op = "attention", .inputs = inputs, .tolerance = 2e-5, .constant = {3}});
    check_kernels({.op = "attention", .inputs = inputs, .attrs = kCausal, .tolerance = 2e-5});
  }
}

TEST(Attention, BooleanMasksHide) {
  for (const DType type : {DType::kBool, DType::kU8}) {
    for (const Shape& mask : {Shape{2, 1, 5, 7}, Shape{2, 1, 1, 7}, Shape{5, 7}}) {
      auto inputs = std::vector<TensorType>{f32({2, 5, 3, 4}), f32({2, 7, 3, 4}), f32({2, 7, 3, 4}), {type, mask}};
      check_op({.op = "attention", .inputs = inputs});
    }
  }
}

TEST(Attention, QueryThatSeesNothingGivesZero) {
  HostTensor mask({DType::kBool, {2, 3}});
  for (int j = 0; j < 3; ++j) mask.as<std::uint8_t>()[j] = 1;
  const OpCase c = {.op = "attention",
                    .inputs = {f32({1, 2, 1, 4}), f32({1, 3, 1, 4}), f32({1, 3, 1, 4}), mask.type},
                    .given = {{3, mask}}};
  check_op(c);
  const auto out = run_op(c);
  for (int d = 0; d < 4; ++d) {
    EXPECT_NE(out[0].floats()[d], 0);
    EXPECT_EQ(out[0].floats()[4 + d], 0);
  }
  EXPECT_EQ(out[1].floats()[1], -INFINITY);
}

TEST(Attention, DropoutIsTheSameInBothDirections) {
  for (const std::int64_t keys : {5, 66}) {
    check_op({.op = "attention",
              .inputs = {f32({2, 5, 2, 3}), f32({2, keys, 2, 3}), f32({2, keys, 2, 3}), f32({}), kRng},
              .attrs = {{"dropout_p", 0.4}, {"key", std::int64_t{7}}},
              .absent = {3},
              .tolerance = 2e-5});
  }
  check_op({.op = "attention",
            .inputs = {f32({1, 70, 3, 1, 3}), f32({}), f32({}), f32({}), kRng},
            .attrs = {{"dropout_p", 0.4}, {"key", std::int64_t{7}}, {"causal", std::int64_t{1}}},
            .absent = {1, 2, 3},
            .tolerance = 2e-5});
}

TEST(Attention, LargeScoresStayFinite) {
  for (const char* kernel : {"simd", "ref"}) {
    const OpCase c = with({.op = "attention", .inputs = self(1, 100, 1, 16), .attrs = kCausal}, -60, 60);
    for (const HostTensor& t : run_op(c, kernel)) {
      for (std::int64_t i = 0; i < t.type.elements(); ++i) ASSERT_TRUE(std::isfinite(t.floats()[i])) << kernel;
    }
  }
  check_kernels(with({.op = "attention", .inputs = self(1, 100, 1, 16), .attrs = kCausal, .tolerance = 2e-3}, -60, 60));
}

TEST(Attention, NanStaysInItsRows) {
  HostTensor q = random_tensor(f32({1, 70, 1, 4}), 1);
  q.floats()[66 * 4] = NAN;
  const auto out = run_op({.op = "attention", .inputs = self(1, 70, 1, 4), .attrs = kCausal, .given = {{0, q}}});
  for (int i = 0; i < 70; ++i) EXPECT_EQ(std::isnan(out[0].floats()[i * 4]), i == 66) << i;
}

TEST(Attention, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const std::vector<OpCase> cases = {{.op = "attention", .inputs = self(1, 200, 3, 16), .attrs = kCausal},
                                     {.op = "attention_grad",
                                      .inputs = {f32({1, 200, 3, 16}), f32({1, 200, 3, 16}), f32({1, 200, 3, 16}),
                                                 f32({1, 200, 3, 16}), f32({1, 200, 3, 16}), f32({1, 3, 200})},
                                      .attrs = kCausal}};
  for (const OpCase& c : cases) {
    omp_set_num_threads(1);
    const auto one = run_op(c);
    omp_set_num_threads(3);
    const auto three = run_op(c);
    omp_set_num_threads(threads);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].data, three[i].data) << c.op << i;
  }
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const auto run = [](std::vector<TensorType> inputs, Attrs attrs = {}) {
    return run_op({.op = "attention", .inputs = std::move(inputs), .attrs = std::move(attrs)});
  };
  EXPECT_THROW(run({f32({2, 5, 3, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 2, 3, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 3, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 2, 4}), f32({2, 5, 2, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 3, 4}), f32({2, 6, 3, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({1, 5, 3, 4}), f32({1, 5, 3, 4})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 3, 6}), f32({2, 5, 3, 6})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 3, 4}), f32({2, 5, 3, 4}), f32({4, 5})}), UserError);
  EXPECT_THROW(run({f32({2, 5, 3, 4}), f32({2, 5, 3, 4}), f32({2, 5, 3, 4}), {DType::kI32, {5, 5}}}), UserError);
  EXPECT_THROW(run(self(1, 2, 1, 3), {{"dropout_p", 1.0}}), UserError);
  EXPECT_THROW(run(self(1, 2, 1, 3), {{"dropout_p", 0.5}}), UserError);
  EXPECT_THROW(run({{DType::kI32, {2, 5, 3, 3, 4}}}), UserError);
}

}  // namespace
}  // namespace neap
