#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

OpCase loss_case(std::int64_t rows, std::int64_t in, std::int64_t classes, DType targets = DType::kI32) {
  return {.op = "vocab_loss",
          .inputs = {f32({rows, in}), f32({classes, in}), f32({classes}), {targets, {rows}}},
          .integer_bound = classes + 2};  // some count for nothing
}

// Logits in the place of the gradient (rows <= in), in chunks of rows, with last tiles and chunks that are smaller.
TEST(VocabLoss, KernelsAgree) {
  check_kernels(loss_case(7, 16, 300));
  check_kernels(loss_case(16, 16, 1030, DType::kI64));
  check_kernels(loss_case(19, 5, 40));
  check_kernels(loss_case(600, 8, 270));
  OpCase without_bias = loss_case(20, 24, 700);
  without_bias.absent = {2};
  check_kernels(without_bias);
  OpCase sum = loss_case(9, 12, 31);
  sum.attrs = {{"reduction", std::string("sum")}};
  check_kernels(sum);
}

// The same numbers as the ops that it stands for.
TEST(VocabLoss, AgreesWithItsParts) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 30, 24});
  const Value w = g.input("w", DType::kF32, {777, 24});
  const Value t = g.input("t", DType::kI32, {2, 30});
  const Values whole = g.add("vocab_loss", {x, w, Value{}, t});
  const Value logits = g("linear", {x, w});
  const Values loss = g.add("cross_entropy", {logits, t});
  const Value d = g("cross_entropy_grad", {g.scalar(1), logits, t, loss[1]});
  const Value dx = g("matmul", {d, w});
  const Value dw = g("linear_grad_weight", {x, d}, {{"shape", Shape{777, 24}}});
  const auto v = evaluate(g.graph(), {{"x", random_tensor(f32({2, 30, 24}), 1)},
                                      {"w", random_tensor(f32({777, 24}), 2)},
                                      {"t", random_tensor({DType::kI32, {2, 30}}, 3, 0, 1, 800)}});
  EXPECT_NEAR(v[whole[0].index].floats()[0], v[loss[0].index].floats()[0], 1e-6);
  for (std::size_t i = 0; i < 2 * 30 * 24; ++i) {
    ASSERT_NEAR(v[whole[1].index].floats()[i], v[dx.index].floats()[i], 1e-7) << i;
  }
  for (std::size_t i = 0; i < 777 * 24; ++i) {
    ASSERT_NEAR(v[whole[2].index].floats()[i], v[dw.index].floats()[i], 1e-7) << i;
  }
}

// The logits' gradient has three tiles, the last a smaller one.
TEST(VocabLoss, PartsAgreeWithReference) {
  OpCase delta = loss_case(16, 16, 16384 * 2 + 70);
  delta.op = "vocab_delta";
  check_kernels(delta);
  delta.absent = {2};
  check_kernels(delta);
  for (const std::int64_t first : {0, 16384, 32768}) {
    check_kernels({.op = "vocab_weight",
                   .inputs = {f32({4, 4, 16}), f32({16384 * 2 + 70, 16})},
                   .attrs = {{"first", first}, {"count", first == 32768 ? 70 : 16384}}});
  }
}

// So a weight's gradient is the same whether it is there as a whole or a few tiles at a time.
TEST(VocabLoss, PartsAreTheWholeToTheBit) {
  constexpr std::int64_t kClasses = 5 * 512 + 64;
  constexpr std::int64_t kRows = 512;
  constexpr std::int64_t kWidth = 520;
  OpCase c = loss_case(kRows, kWidth, kClasses);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    c.given[i] = random_tensor(c.inputs[i], i, -1, 1, kClasses);
  }
  for (const char* kernel : {"onednn", "simd"}) {
    c.op = "vocab_loss";
    const auto whole = run_op(c, kernel);
    c.op = "vocab_delta";
    const auto parts = run_op(c, kernel);
    for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(parts[i].data, whole[i].data) << kernel << i;
    for (const auto& [first, count] : {std::pair{0, 1024}, std::pair{1024, 1536}, std::pair{2560, 64}}) {
      const auto rows = run_op({.op = "vocab_weight",
                                .inputs = {c.inputs[0], parts[2].type},
                                .attrs = {{"first", std::int64_t{first}}, {"count", std::int64_t{count}}},
                                .given = {{0, c.given[0]}, {1, parts[2]}}},
                               kernel);
      EXPECT_TRUE(std::equal(rows[0].floats(), rows[0].floats() + count * kWidth, whole[2].floats() + first * kWidth))
          << kernel << first;
    }
  }
}

TEST(VocabLoss, BitsDoNotDependOnThreadsWithOwnKernels) {
  const int threads = omp_get_max_threads();
  const OpCase c = loss_case(300, 40, 999);
  omp_set_num_threads(1);
  const auto one = run_op(c, "simd");
  omp_set_num_threads(3);
  const auto three = run_op(c, "simd");
  omp_set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].data, three[i].data) << i;
}

TEST(VocabLoss, LargeLogitsStayFinite) {
  OpCase c = loss_case(8, 16, 600);
  c.low = -30;
  c.high = 30;
  c.tolerance = 1e-3;
  check_kernels(c);
}

TEST(VocabLoss, RefusesWhatDoesNotFit) {
  const auto run = [](std::vector<TensorType> inputs) {
    return run_op({.op = "vocab_loss", .inputs = std::move(inputs)});
  };
  EXPECT_THROW(run({f32({5, 3}), f32({9, 4}), f32({9}), {DType::kI32, {5}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), f32({9, 3}), f32({8}), {DType::kI32, {5}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), f32({9, 3}), f32({9}), {DType::kI32, {4}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), f32({9, 3}), f32({9}), f32({5})}), UserError);
  OpCase too_many = loss_case(6, 5, 9);
  too_many.op = "vocab_delta";
  EXPECT_THROW(run_op(too_many), UserError);
  const auto weight = [](Shape delta, std::int64_t first, std::int64_t count) {
    return run_op({.op = "vocab_weight",
                   .inputs = {f32({3, 5}), f32(std::move(delta))},
                   .attrs = {{"first", first}, {"count", count}}});
  };
  EXPECT_THROW(weight({9, 4}, 0, 9), UserError);
  EXPECT_THROW(weight({9, 3}, 4, 6), UserError);
  EXPECT_THROW(weight({9, 3}, 0, 0), UserError);
  EXPECT_EQ(weight({9, 3}, 0, 9).size(), 1U);
}

}  // namespace
}  // namespace neap
