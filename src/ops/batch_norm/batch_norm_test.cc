#include <fmt/format.h>
#include <omp.h>

#include <cmath>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

const Shape kShapes[] = {{2, 3, 5, 16}, {7, 33}, {3, 70, 5}, {1, 9, 15, 130}, {200, 1}, {1, 8, 8, 8}};

TEST(BatchStats, KernelsAgree) {
  for (const Shape& shape : kShapes) {
    check_kernels({.op = "batch_stats", .inputs = {f32(shape)}});
    check_kernels({.op = "batch_stats", .inputs = {f32(shape)}, .low = 999, .high = 1001, .tolerance = 1e-4});
  }
  check_kernels({.op = "batch_stats", .inputs = {f32({5000, 17})}, .low = -3, .high = 1});
}

// E[x^2] - E[x]^2 in f32 would lose all digits here.
TEST(BatchStats, VarianceSurvivesALargeMean) {
  const OpCase c{
      .op = "batch_stats", .inputs = {f32({4096, 16})}, .attrs = {{"epsilon", 0.0}}, .low = 9999, .high = 10001};
  const auto out = run_op(c);
  const auto want = run_op(c, "ref");
  for (int i = 0; i < 16; ++i) EXPECT_NEAR(out[2].floats()[i], want[2].floats()[i], 1e-5 * want[2].floats()[i]);
}

std::vector<HostTensor> with_threads(const OpCase& c, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto out = run_op(c);
  omp_set_num_threads(before);
  return out;
}

TEST(BatchNorm, BitsDoNotDependOnThreads) {
  const Shape x{3, 37, 5, 48};
  const OpCase cases[] = {
      {.op = "batch_stats", .inputs = {f32(x)}},
      {.op = "batch_norm_grad", .inputs = {f32(x), f32(x), f32({48}), f32({48}), f32({48})}},
  };
  for (const OpCase& c : cases) {
    const auto one = with_threads(c, 1);
    for (const int threads : {2, 3}) {
      const auto more = with_threads(c, threads);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].data, more[i].data) << c.op << " output " << i;
    }
  }
}

// Numbers in [-1, -0.6) and [0.6, 1): normalised, they are so far from 0 that a finite difference crosses no ReLU's
// edge.
HostTensor away_from_zero(const Shape& shape) {
  HostTensor t = random_tensor(f32(shape), 77, -0.4, 0.4);
  for (std::int64_t i = 0; i < shape.count(); ++i) t.floats()[i] += t.floats()[i] < 0 ? -0.6F : 0.6F;
  return t;
}

OpCase apply_case(const Shape& shape, bool relu, bool residual) {
  const TensorType channels = f32({shape[-1]});
  OpCase c{.op = "batch_norm_apply",
           .inputs = {f32(shape), channels, channels, channels, channels},
           .attrs = {{"relu", static_cast<std::int64_t>(relu)}}};
  if (residual) c.inputs.push_back(f32(shape));
  c.low = -0.05;
  c.high = 0.05;
  c.given[0] = away_from_zero(shape);
  c.given[2] = random_tensor(channels, 5, 0.5, 2);
  c.given[3] = random_tensor(channels, 6, 0.5, 1.5);
  c.constant = {1, 2};
  return c;
}

TEST(BatchNormApply, KernelsAgreeAndFrozenGradientHolds) {
  for (const Shape& shape : kShapes) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) check_op(apply_case(shape, relu, residual));
    }
  }
}

TEST(BatchNormApply, GradientWithoutTrainedParametersReadsNoX) {
  for (const bool residual : {false, true}) {
    OpCase c = apply_case({2, 3, 4, 20}, true, residual);
    c.constant = {1, 2, 3, 4};
    check_op(c);
  }
  Builder g;
  const Value x = g.input("x", DType::kF32, {4, 8});
  const Value channels = g.input("c", DType::kF32, {8});
  const Node node =
      g.graph().at(g.graph().at(g("batch_norm_apply", {x, channels, channels, channels, channels})).producer);
  const Values dy = {g.input("dy", DType::kF32, {4, 8}), {}};
  const std::vector<bool> wanted = {true, false, false, false, false};
  GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted};
  node.op->gradient(call);
  for (const Value read : g.graph().nodes.back().inputs) EXPECT_NE(read, x);
}

TEST(BatchNormApply, MaskIsTheSignOfY) {
  for (const Shape& shape : kShapes) {
    auto out = run_op(apply_case(shape, true, false));
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      EXPECT_EQ(out[1].as<std::uint8_t>()[i / 8] >> (i % 8) & 1, out[0].floats()[i] > 0 ? 1 : 0);
    }
  }
}

TEST(BatchNormApply, NanGoesThroughTheRelu) {
  OpCase c = apply_case({3, 16}, true, false);
  c.given[0] = random_tensor(f32({3, 16}), 1);
  c.given[0].floats()[5] = NAN;
  for (const char* kernel : {"simd", "ref"}) EXPECT_TRUE(std::isnan(run_op(c, kernel)[0].floats()[5]));
}

// The gate that batch_norm_grad makes again from x must be the one that forward used, to the bit.
TEST(BatchNormGrad, SignIsTheMaskThatForwardGave) {
  const Shape shape{16, 12, 12, 48};
  const TensorType channels = f32({48});
  OpCase apply = apply_case(shape, true, false);
  apply.given[0] = random_tensor(f32(shape), 8, -1e-3, 1e-3);  // many pre-activations near 0
  apply.given[1] = random_tensor(channels, 9, -1e-3, 1e-3);
  apply.given[4] = random_tensor(channels, 10, -1e-3, 1e-3);
  const auto forward = run_op(apply);
  OpCase grad{.op = "batch_norm_grad", .attrs = {{"relu", 1}}};
  grad.inputs = {f32(shape), f32(shape), channels, channels, channels, {DType::kBits, shape}, channels};
  for (const std::size_t i : {0, 1, 2, 3, 4}) {  // x, mean, rstd, scale, bias of forward
    const std::size_t at = i < 4 ? i + 1 : 6;
    const auto given = apply.given.find(i);
    grad.given[at] =
        given != apply.given.end() ? given->second : random_tensor(apply.inputs[i], 100 + i, apply.low, apply.high);
  }
  grad.given[5] = forward[1];
  const auto by_mask = run_op(grad);
  grad.absent = {5};
  const auto by_sign = run_op(grad);
  for (std::size_t i = 0; i < by_mask.size(); ++i) EXPECT_EQ(by_mask[i].data, by_sign[i].data) << "output " << i;
}

TEST(BatchNormGrad, KernelsAgree) {
  for (const Shape& shape : kShapes) {
    const TensorType channels = f32({shape[-1]});
    for (const int frozen : {0, 1}) {
      OpCase c{.op = "batch_norm_grad",
               .inputs = {f32(shape), f32(shape), channels, channels, channels, {DType::kBits, shape}, channels},
               .attrs = {{"frozen", frozen}},
               .tolerance = 3e-5};
      c.absent = {5, 6};
      check_kernels(c);
      c.attrs.set("relu", 1);
      c.absent = {6};
      check_kernels(c);
      c.absent = {5};
      check_kernels(c);
    }
  }
}

// batch_stats and batch_norm_apply together: dx by the rule against differences through both.
class TrainingGradient {
 public:
  TrainingGradient(const Shape& shape, bool relu, bool residual) {
    const Dim c = shape[-1];
    x_ = leaf("x", shape, 0, 0);
    leaves_["x"] = away_from_zero(shape);
    const Value scale = leaf("scale", {c}, 0.5, 1.5);
    const Value bias = leaf("bias", {c}, -0.05, 0.05);
    const Values stats = g_.add("batch_stats", {x_}, {{"epsilon", 1e-3}});
    inputs_ = {x_, stats[0], stats[1], scale, bias};
    if (residual) inputs_.push_back(leaf("residual", shape, -0.05, 0.05));
    y_ = g_("batch_norm_apply", inputs_, {{"relu", static_cast<std::int64_t>(relu)}});
    forward_ = std::make_unique<Builder>(g_.graph());
  }

  void check() {
    const Node node = g_.graph().nodes.back();
    const Value dy = leaf("dy", g_.shape(y_), -1, 1);
    const Values dys = {dy, {}};
    const std::vector<bool> wanted(inputs_.size(), true);
    GradientCall call{.g = g_, .node = node, .dy = dys, .wanted = wanted};
    const Values dx = node.op->gradient(call);
    EXPECT_FALSE(dx[1]);
    EXPECT_FALSE(dx[2]);
    const auto values = evaluate(g_.graph(), leaves_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (i != 1 && i != 2) check_input(inputs_[i], values[dx[i].index]);
    }
  }

 private:
  Value leaf(const std::string& name, const Shape& shape, double low, double high) {
    leaves_[name] = random_tensor(f32(shape), 40 + leaves_.size(), low, high);
    return g_.input(name, DType::kF32, shape);
  }

  double loss(const std::string& name, std::int64_t element, float by) {
    auto leaves = leaves_;
    leaves[name].floats()[element] += by;
    const auto y = evaluate(forward_->graph(), leaves, "ref")[y_.index];
    double sum = 0;
    for (std::int64_t i = 0; i < y.type.elements(); ++i)
      sum += static_cast<double>(y.floats()[i]) * leaves_["dy"].floats()[i];
    return sum;
  }

  void check_input(Value input, const HostTensor& got) {
    const std::string name = g_.graph().at(input).name;
    const float step = 2e-3F;
    for (std::int64_t e = 0; e < got.type.elements(); e += 1 + got.type.elements() / 29) {
      const double want = (loss(name, e, step) - loss(name, e, -step)) / (2.0 * step);
      EXPECT_NEAR(got.floats()[e], want, 2e-2 * (1 + std::abs(want))) << name << " [" << e << "]";
    }
  }

  Builder g_;
  std::unique_ptr<Builder> forward_;
  std::map<std::string, HostTensor> leaves_;
  Values inputs_;
  Value x_, y_;
};

TEST(BatchNorm, TrainingGradientHolds) {
  for (const Shape& shape : {Shape{2, 3, 5, 16}, Shape{9, 5}, Shape{2, 70, 3}}) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true}) TrainingGradient(shape, relu, residual).check();
    }
  }
}

TEST(FrozenStats, AreTheRunningOnes) {
  OpCase c{.op = "frozen_stats", .inputs = {f32({5}), f32({5})}, .attrs = {{"epsilon", 0.25}}, .low = 0.1, .high = 4};
  const auto out = run_op(c);
  const auto mean = random_tensor(f32({5}), 100, 0.1, 4);
  const auto var = random_tensor(f32({5}), 101, 0.1, 4);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(out[0].floats()[i], mean.floats()[i]);
    EXPECT_FLOAT_EQ(out[1].floats()[i], 1 / std::sqrt(var.floats()[i] + 0.25F));
  }
}

TEST(RunningStats, MoveByTheRate) {
  OpCase c{.op = "running_stats", .inputs = {f32({2}), f32({2}), f32({2}), f32({2})}, .attrs = {{"rate", 0.25}}};
  for (const auto& [i, v] : {std::pair<std::size_t, float>{0, 1}, {1, 2}, {2, 3}, {3, 4}}) {
    c.given[i] = HostTensor(f32({2}));
    std::fill_n(c.given[i].floats(), 2, v);
  }
  auto out = run_op(c);
  EXPECT_FLOAT_EQ(out[0].floats()[1], 1.5F);
  EXPECT_FLOAT_EQ(out[1].floats()[0], 2.5F);
  c.attrs.set("rows", Shape{1, 5});  // 4 * 5 / 4 = 5
  out = run_op(c);
  EXPECT_FLOAT_EQ(out[1].floats()[0], 2.75F);
}

TEST(BatchNorm, BadInput) {
  EXPECT_THROW(run_op({.op = "batch_stats", .inputs = {f32({4})}}), UserError);
  EXPECT_THROW(run_op({.op = "batch_stats", .inputs = {f32({4, 2})}, .attrs = {{"epsilon", -1.0}}}), UserError);
  OpCase c = apply_case({4, 16}, true, true);
  c.inputs[3] = f32({15});
  EXPECT_THROW(run_op(c), UserError);
  c = apply_case({4, 16}, true, true);
  c.inputs[5] = f32({16});
  EXPECT_THROW(run_op(c), UserError);
  OpCase grad{.op = "batch_norm_grad",
              .inputs = {f32({4, 2}), f32({4, 2}), f32({2}), f32({2}), f32({2})},
              .attrs = {{"relu", 1}}};
  EXPECT_THROW(run_op(grad), UserError);  // neither mask nor bias
}

TEST(BatchNormApply, GradientsReachTheStatistics) {
  OpCase c = apply_case({4, 16}, false, false);
  c.constant = {};
  check_gradient(c);
}

}  // namespace
}  // namespace neap
