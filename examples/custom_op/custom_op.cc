// An op that Neap does not have, added from outside: the squared ReLU, y = max(x, 0)^2, with dx = 2 max(x, 0) dy. A
// small network that uses it learns to multiply two numbers.
#include <neap/error.h>
#include <neap/layers.h>
#include <neap/op.h>
#include <neap/train.h>

#include <algorithm>
#include <cstdio>

namespace {

// Throws when the op is given what it cannot take; works on symbolic shapes as well.
std::vector<neap::TensorType> infer(const neap::OpTypes& types) {
  if (types.in(0).dtype != neap::DType::kF32) throw neap::UserError("takes f32 only");
  return {types.in(0)};
}

void run(const neap::OpData& data) {
  const float* x = data.in<float>(0);
  float* y = data.out<float>(0);
  const std::int64_t count = data.types.outputs[0].elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const float gate = std::max(x[i], 0.0F);
    y[i] = gate * gate;
  }
}

// Made of ops that are there. It reads x, so x is kept for backward, and y is not.
neap::Values gradient(const neap::OpGradient& c) {
  const neap::Value gate = c.g("relu", {c.x[0]});
  const neap::Value slope = c.g("mul", {gate, c.g.scalar(2)});
  return {c.g("mul", {slope, c.dy[0]})};
}

class Product final : public neap::Model {
 public:
  std::string name() const override { return "product"; }
  std::int64_t batch() const override { return 64; }
  void build(neap::Builder& g, const neap::BuildRequest& request) const override {
    const neap::Value x = g.input("x", neap::DType::kF32, {request.batch, 2});
    const neap::Value target = g.input("target", neap::DType::kF32, {request.batch, 1});
    const neap::Value h = g("squared_relu", {neap::linear(g, "fc1", x, 16)});
    g.output("loss", g("mse", {neap::linear(g, "fc2", h, 1), target}));
  }
};

// Points on a grid over [-1, 1]^2; the target is their product.
void feed(std::string_view input, std::span<std::byte> dst) {
  float* out = reinterpret_cast<float*>(dst.data());
  for (int i = 0; i < 64; ++i) {
    const float a = static_cast<float>(i % 8) / 3.5F - 1;
    const float b = static_cast<float>(i / 8) / 3.5F - 1;
    if (input == "x") {
      out[2 * i] = a;
      out[2 * i + 1] = b;
    } else {
      out[i] = a * b;
    }
  }
}

}  // namespace

int main() {
  try {
    neap::register_op({.name = "squared_relu", .infer = infer, .run = run, .gradient = gradient, .cheap = true});
    neap::TrainOptions options;
    options.steps = 500;
    options.optimizer = {.name = "adam", .lr = 0.01, .weight_decay = 0};
    neap::Trainer trainer(std::make_shared<Product>(), options, feed);
    neap::StepReport report;
    while (trainer.step() < options.steps) {
      report = trainer.advance();
      if (report.step % 100 == 0) std::printf("step %3d  loss %.6f\n", static_cast<int>(report.step), report.loss);
    }
    return report.loss < 1e-4 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "custom_op: %s\n", e.what());
    return 1;
  }
}
