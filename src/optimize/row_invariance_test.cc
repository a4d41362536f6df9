#include "optimize/row_invariance.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/kernel.h"

namespace neap {
namespace {

RowProgram one_step(const OpDef& op, std::vector<RowInput> inputs, std::int64_t chunk) {
  RowProgram out{.axes = 1, .chunk = chunk, .inputs = std::move(inputs), .steps = {{.op = &op}}, .results = {}};
  for (std::size_t i = 0; i < out.inputs.size(); ++i) out.steps[0].inputs.push_back(static_cast<int>(i));
  out.results = {static_cast<int>(out.inputs.size())};
  return out;
}

bool is_invariant(const RowProgram& program, const ValueTypes& inputs) {
  return is_row_invariant(program, value_types(program, inputs), 0);
}

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// What the passes rely on here; another library or processor may differ, and is left alone then.
TEST(RowInvariance, ProductsAndConvolutionsHaveIt) {
  const auto weight = RowInput::kWhole;
  for (const std::int64_t rows : {256, 300, 513}) {
    const auto product = one_step(op_named("linear"), {RowInput::kRows, weight}, 128);
    EXPECT_TRUE(is_invariant(product, {f32({rows, 96}), f32({384, 96})})) << rows;
  }
  auto conv = one_step(op_named("conv"), {RowInput::kRows, weight}, 4);
  conv.steps[0].attrs.set("pads", Ints{1, 1, 1, 1});
  EXPECT_TRUE(is_invariant(conv, {f32({7, 12, 12, 16}), f32({16, 3, 3, 16})}));
}

// An op whose result depends on the number of rows, by its values or by the kernel that it takes.
Types same(const OpCall& call) { return {call.in(0)}; }

Prepared adds_rows(const OpCall& call) {
  const TensorType& type = call.in(0);
  return function_kernel([type](const Buffers& b) {
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      b.out<float>(0)[i] = b.in<float>(0)[i] + static_cast<float>(type.shape.size(0));
    }
  });
}

class Named final : public Kernel {
 public:
  Named(std::int64_t elements, std::string name) : elements_(elements), name_(std::move(name)) {}
  std::string numerics() const override { return name_; }
  void launch(const Buffers& b, Stream& /*stream*/) override {
    std::copy_n(b.in<float>(0), elements_, b.out<float>(0));
  }

 private:
  std::int64_t elements_;
  std::string name_;
};

Prepared by_another_name(const OpCall& call) {
  return std::make_unique<Named>(call.in(0).elements(), call.shape(0).size(0) > 100 ? "large" : "small");
}

TEST(RowInvariance, SeesOtherValuesAndOtherKernels) {
  static constexpr KernelEntry kAdds[] = {{"ref", DeviceKind::kCpu, adds_rows}};
  static constexpr OpDef kOther = {.name = "adds_rows", .infer = same, .kernels = kAdds, .kernel_count = 1};
  EXPECT_FALSE(is_invariant(one_step(kOther, {RowInput::kRows}, 16), {f32({64, 4})}));
  static constexpr KernelEntry kNames[] = {{"ref", DeviceKind::kCpu, by_another_name}};
  static constexpr OpDef kNamed = {.name = "by_another_name", .infer = same, .kernels = kNames, .kernel_count = 1};
  EXPECT_FALSE(is_invariant(one_step(kNamed, {RowInput::kRows}, 64), {f32({128, 4})}));
  EXPECT_TRUE(is_invariant(one_step(kNamed, {RowInput::kRows}, 16), {f32({64, 4})}));
}

}  // namespace
}  // namespace neap
