#include <cmath>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

HostTensor hyper(float lr, float beta1, float beta2, float eps, float decay, int t, float scale = 1) {
  return tensor_of({8}, {lr, beta1, beta2, eps, decay, static_cast<float>(1 - std::pow(beta1, t)),
                         static_cast<float>(1 - std::pow(static_cast<double>(beta2), t)), scale});
}

OpCase sgd(const Shape& shape, std::int64_t nesterov, bool momentum, bool clip) {
  const TensorType type{DType::kF32, shape};
  OpCase c{.op = "sgd_update",
           .inputs = {type, type, type, {DType::kF32, {8}}, {DType::kF32, {2}}},
           .attrs = {{"nesterov", nesterov}},
           .given = {{3, hyper(0.1F, 0.9F, 0, 0, 0.01F, 1, 0.5F)}, {4, tensor_of({2}, {0.3F, 9})}}};
  if (!momentum) c.absent.push_back(2);
  if (!clip) c.absent.push_back(4);
  return c;
}

OpCase adam(const std::string& op, const Shape& shape, bool clip) {
  const TensorType type{DType::kF32, shape};
  OpCase c{.op = op,
           .inputs = {type, type, type, type, {DType::kF32, {8}}, {DType::kF32, {1}}},
           .given = {{3, random_tensor(type, 77, 0, 1)},
                     {4, hyper(0.01F, 0.9F, 0.999F, 1e-8F, 0.1F, 3, 2)},
                     {5, tensor_of({1}, {0.25F})}}};
  if (!clip) c.absent.push_back(5);
  return c;
}

TEST(Update, KernelsAgree) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5, 17}, Shape{20003}}) {
    for (const bool clip : {false, true}) {
      check_kernels(sgd(shape, 0, false, clip));
      check_kernels(sgd(shape, 0, true, clip));
      check_kernels(sgd(shape, 1, true, clip));
      check_kernels(adam("adam_update", shape, clip));
      check_kernels(adam("adamw_update", shape, clip));
    }
  }
}

OpCase accumulate(const Shape& shape, float part) {
  const TensorType type{DType::kF32, shape};
  return {.op = "accumulate", .inputs = {type, type, {DType::kF32, {1}}}, .given = {{2, tensor_of({1}, {part})}}};
}

TEST(Update, AccumulateStartsWithTheFirstPart) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{20003}}) {
    check_kernels(accumulate(shape, 0));
    check_kernels(accumulate(shape, 1));
  }
  OpCase c = accumulate({2}, 0);
  c.given[0] = tensor_of({2}, {std::numeric_limits<float>::quiet_NaN(), 5});
  c.given[1] = tensor_of({2}, {1, 2});
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{1, 2}));
  c.given[0] = tensor_of({2}, {3, 5});
  c.given[2] = tensor_of({1}, {1});
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{4, 7}));
}

// A scale of 0: parts of the batch are still to come.
TEST(Update, PutOffChangesNothing) {
  for (OpCase c : {sgd({5}, 1, true, true), adam("adam_update", {5}, true), adam("adamw_update", {5}, false)}) {
    const std::size_t at = c.op == "sgd_update" ? 3 : 4;
    c.given[at].floats()[7] = 0;
    const TensorType type{DType::kF32, {5}};
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) c.given[i] = random_tensor(type, 5 + i, 0, 1);
    for (const char* kernel : {"simd", "ref"}) {
      const auto out = run_op(c, kernel);
      EXPECT_EQ(values_of(out[0]), values_of(c.given[0])) << c.op << kernel;
      EXPECT_EQ(values_of(out[1]), values_of(c.given[2])) << c.op << kernel;
    }
  }
}

TEST(Update, OnAnyNumberOfThreads) {
  check_threads(sgd({30001}, 1, true, true));
  check_threads(adam("adamw_update", {30001}, true));
}

// Two steps from known numbers, the second with momentum in it. The values are PyTorch's own formulas in double:
// SGD(lr 0.1, momentum 0.9, weight_decay 0.1) on p = 1, gradients 0.5 and -0.25.
TEST(Update, SgdByHand) {
  for (const bool nesterov : {false, true}) {
    double p = 1;
    double v = 0;
    OpCase c{.op = "sgd_update",
             .inputs = {{DType::kF32, {1}}, {DType::kF32, {1}}, {DType::kF32, {1}}, {DType::kF32, {8}}},
             .attrs = {{"nesterov", std::int64_t{nesterov}}},
             .given = {{0, tensor_of({1}, {1})}, {2, tensor_of({1}, {0})}, {3, hyper(0.1F, 0.9F, 0, 0, 0.1F, 1)}}};
    for (const double gradient : {0.5, -0.25}) {
      const double g = gradient + 0.1 * p;
      v = 0.9 * v + g;
      p -= 0.1 * (nesterov ? g + 0.9 * v : v);
      c.given[1] = tensor_of({1}, {static_cast<float>(gradient)});
      const auto out = run_op(c);
      EXPECT_NEAR(out[0].floats()[0], p, 1e-6);
      EXPECT_NEAR(out[1].floats()[0], v, 1e-6);
      c.given[0] = out[0];
      c.given[2] = out[1];
    }
  }
}

TEST(Update, AdamByHand) {
  for (const bool decoupled : {false, true}) {
    double p = 1;
    double m = 0;
    double v = 0;
    const TensorType one{DType::kF32, {1}};
    OpCase c{.op = decoupled ? "adamw_update" : "adam_update", .inputs = {one, one, one, one, {DType::kF32, {8}}}};
    c.given = {{0, tensor_of({1}, {1})}, {2, tensor_of({1}, {0})}, {3, tensor_of({1}, {0})}};
    const double rate = 0.01;
    for (const int t : {1, 2, 3}) {
      double g = t == 2 ? -0.125 : 0.5;
      c.given[1] = tensor_of({1}, {static_cast<float>(g)});
      c.given[4] = hyper(0.01F, 0.9F, 0.999F, 1e-8F, 0.1F, t);
      c.given[4].floats()[6] = static_cast<float>(1 - std::pow(0.999, t));
      if (decoupled) p *= 1 - rate * 0.1;
      if (!decoupled) g += 0.1 * p;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const double bias1 = 1 - std::pow(0.9, t);
      const double bias2 = 1 - std::pow(0.999, t);
      p -= rate / bias1 * m / (std::sqrt(v) / std::sqrt(bias2) + 1e-8);
      const auto out = run_op(c);
      EXPECT_NEAR(out[0].floats()[0], p, 2e-7);
      EXPECT_NEAR(out[1].floats()[0], m, 1e-7);
      EXPECT_NEAR(out[2].floats()[0] / v, 1, 1e-6);
      for (const int i : {0, 1, 2}) c.given[i == 0 ? 0 : i + 1] = out[i];
    }
  }
}

TEST(Update, DeclaresWhatItChanges) {
  EXPECT_TRUE(op_named("sgd_update").side_effects());
  EXPECT_EQ(op_named("adamw_update").mutates.size(), 3U);
  const TensorType type{DType::kF32, {100}};
  const OpCall call{.op = &op_named("adamw_update"), .inputs = {type, type, type, type, TensorType{DType::kF32, {8}}}};
  EXPECT_EQ(traffic_of(call), 7 * 400 + 32);
}

TEST(Update, RefusesWhatDoesNotFit) {
  OpCase c = sgd({4}, 1, false, false);
  EXPECT_THROW(run_op(c), UserError);  // nesterov without momentum
  c = sgd({4}, 0, true, true);
  c.inputs[1] = {DType::kF32, {5}};
  EXPECT_THROW(run_op(c), UserError);
  c = adam("adam_update", {4}, true);
  c.inputs[4] = {DType::kF32, {7}};
  c.given.erase(4);
  EXPECT_THROW(run_op(c), UserError);
  c = adam("adam_update", {4}, true);
  c.absent = {3};
  EXPECT_THROW(run_op(c), UserError);
}

TEST(RunningUpdate, AsBatchNormDoes) {
  const TensorType type{DType::kF32, {2}};
  OpCase c{.op = "running_update", .inputs = {type, type, type, type}, .attrs = {{"momentum", 0.1}, {"count", 5}}};
  c.given = {{0, tensor_of({2}, {0, 1})},
             {1, tensor_of({2}, {1, 2})},
             {2, tensor_of({2}, {10, 20})},
             {3, tensor_of({2}, {4, 8})}};
  const auto out = run_op(c);
  EXPECT_NEAR(out[0].floats()[0], 1, 1e-6);
  EXPECT_NEAR(out[0].floats()[1], 2.9, 1e-6);
  EXPECT_NEAR(out[1].floats()[0], 0.9 + 0.1 * 5, 1e-6);
  EXPECT_NEAR(out[1].floats()[1], 1.8 + 0.1 * 10, 1e-6);
  c.attrs.set("count", Shape{5});
  EXPECT_EQ(values_of(run_op(c)[1]), values_of(out[1]));
  c.attrs = {{"momentum", 0.1}};
  EXPECT_THROW(run_op(c), UserError);
  c.attrs = {{"momentum", 2.0}, {"count", 5}};
  EXPECT_THROW(run_op(c), UserError);
}

}  // namespace
}  // namespace neap
