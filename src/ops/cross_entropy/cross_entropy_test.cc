#include <omp.h>

#include <cmath>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

template <class T>
HostTensor tensor(DType dtype, Shape shape, std::initializer_list<T> values) {
  HostTensor t({dtype, std::move(shape)});
  std::copy(values.begin(), values.end(), t.as<T>());
  return t;
}

TEST(CrossEntropy, KernelsAgreeAndGradientHolds) {
  for (const DType type : {DType::kI32, DType::kI64}) {
    check_op({.op = "cross_entropy", .inputs = {f32({6, 3}), {type, {6}}}, .low = -3, .high = 3});
    check_op({.op = "cross_entropy", .inputs = {f32({1, 3}), {type, {1}}}});
    check_op({.op = "cross_entropy", .inputs = {f32({2, 4, 37}), {type, {2, 4}}}, .integer_bound = 37});
    check_op({.op = "cross_entropy", .inputs = {f32({100, 17}), {type, {100}}}, .integer_bound = 17});
    check_op({.op = "cross_entropy", .inputs = {f32({5}), {type, {}}}});
  }
  check_op({.op = "cross_entropy", .inputs = {f32({4, 1}), {DType::kI32, {4}}}, .integer_bound = 1});
}

TEST(CrossEntropy, SmoothingAndSum) {
  for (const double smoothing : {0.1, 1.0}) {
    check_op({.op = "cross_entropy",
              .inputs = {f32({7, 20}), {DType::kI32, {7}}},
              .attrs = {{"label_smoothing", smoothing}, {"reduction", std::string("sum")}},
              .low = -2,
              .high = 2,
              .integer_bound = 20});
  }
}

TEST(CrossEntropy, GradientKernelsAgree) {
  check_kernels({.op = "cross_entropy_grad",
                 .inputs = {f32({}), f32({9, 33}), {DType::kI32, {9}}, f32({9})},
                 .attrs = {{"label_smoothing", 0.2}},
                 .integer_bound = 33});
}

TEST(CrossEntropy, RowsThatDoNotCount) {
  const HostTensor targets = tensor<std::int32_t>(DType::kI32, {5}, {0, -100, 2, 77, -3});
  const OpCase c = {.op = "cross_entropy", .inputs = {f32({5, 3}), targets.type}, .given = {{1, targets}}};
  check_op(c);
  const OpCase other = {.op = "cross_entropy",
                        .inputs = {f32({5, 3}), targets.type},
                        .attrs = {{"ignore_index", std::int64_t{2}}},
                        .given = {{1, targets}}};
  check_op(other);
  EXPECT_NE(run_op(c)[0].floats()[0], run_op(other)[0].floats()[0]);
}

TEST(CrossEntropy, NothingCountsGivesZero) {
  const HostTensor targets = tensor<std::int64_t>(DType::kI64, {2}, {-100, -100});
  const OpCase c = {.op = "cross_entropy", .inputs = {f32({2, 3}), targets.type}, .given = {{1, targets}}};
  check_op(c);
  EXPECT_EQ(run_op(c)[0].floats()[0], 0);
}

TEST(CrossEntropy, KnownValue) {
  const HostTensor x = tensor<float>(DType::kF32, {1, 2}, {0, std::log(3.0F)});
  const HostTensor t = tensor<std::int32_t>(DType::kI32, {1}, {1});
  const auto out = run_op({.op = "cross_entropy", .inputs = {x.type, t.type}, .given = {{0, x}, {1, t}}});
  EXPECT_NEAR(out[0].floats()[0], std::log(4.0 / 3.0), 1e-6);
  EXPECT_NEAR(out[1].floats()[0], std::log(4.0), 1e-6);
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  check_kernels({.op = "cross_entropy", .inputs = {f32({8, 50}), {DType::kI32, {8}}}, .low = -1e4, .high = 1e4});
}

TEST(CrossEntropy, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const OpCase c = {.op = "cross_entropy", .inputs = {f32({777, 41}), {DType::kI32, {777}}}, .integer_bound = 41};
  omp_set_num_threads(1);
  const auto one = run_op(c);
  omp_set_num_threads(3);
  const auto three = run_op(c);
  omp_set_num_threads(threads);
  EXPECT_EQ(one[0].data, three[0].data);
  EXPECT_EQ(one[1].data, three[1].data);
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  const auto run = [](std::vector<TensorType> inputs, Attrs attrs = {}) {
    return run_op({.op = "cross_entropy", .inputs = std::move(inputs), .attrs = std::move(attrs)});
  };
  EXPECT_THROW(run({f32({5, 3}), {DType::kI32, {4}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), {DType::kI32, {5, 3}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), f32({5})}), UserError);
  EXPECT_THROW(run({{DType::kI32, {5, 3}}, {DType::kI32, {5}}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), {DType::kI32, {5}}}, {{"reduction", std::string("max")}}), UserError);
  EXPECT_THROW(run({f32({5, 3}), {DType::kI32, {5}}}, {{"label_smoothing", 1.5}}), UserError);
}

TEST(CorrectCount, CountsFirstOfEquals) {
  const HostTensor x = tensor<float>(DType::kF32, {4, 3}, {1, 1, 0, 0, 2, 2, 5, 1, 0, NAN, 1, 0});
  const HostTensor t = tensor<std::int32_t>(DType::kI32, {4}, {0, 2, -100, 0});
  const OpCase c = {.op = "correct_count", .inputs = {x.type, t.type}, .given = {{0, x}, {1, t}}};
  check_kernels(c);
  auto out = run_op(c);
  EXPECT_EQ(out[0].as<std::int64_t>()[0], 1);
  EXPECT_EQ(out[0].as<std::int64_t>()[1], 3);
  check_kernels({.op = "correct_count", .inputs = {f32({200, 10}), {DType::kI64, {200}}}, .integer_bound = 12});
}

TEST(NllLoss, GradientHoldsAndTargetsAreChecked) {
  check_op({.op = "nll_loss", .inputs = {f32({6, 5}), {DType::kI32, {6}}}, .integer_bound = 7});
  check_op({.op = "nll_loss",
            .inputs = {f32({2, 3, 5}), {DType::kI64, {2, 3}}},
            .attrs = {{"reduction", std::string("sum")}}});
  EXPECT_THROW(run_op({.op = "nll_loss", .inputs = {f32({6, 5}), {DType::kI32, {5}}}}), UserError);
}

// nll_loss of log_softmax is cross_entropy.
TEST(NllLoss, AgreesWithCrossEntropy) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {6, 5});
  const Value t = g.input("t", DType::kI32, {6});
  const Value a = g("nll_loss", {g("log_softmax", {x}), t});
  const Value b = g("cross_entropy", {x, t});
  const auto values =
      evaluate(g.graph(), {{"x", random_tensor(f32({6, 5}), 1)}, {"t", random_tensor({DType::kI32, {6}}, 2, 0, 1, 5)}});
  EXPECT_NEAR(values[a.index].floats()[0], values[b.index].floats()[0], 1e-6);
}

}  // namespace
}  // namespace neap
