// Fused programs compiled at run time have the bits of the ops' own kernels.
#include <gtest/gtest.h>

#include "device/cuda/cuda.h"
#include "ops/op_check.h"
#include "ops/tiled/tiled.h"
#include "ops/tiled/tiled_kernel.h"

namespace neap {
namespace {

TiledStep step(const char* op, std::vector<int> inputs, Attrs attrs = {}) {
  return {.op = &op_named(op), .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

std::vector<std::byte> run(Prepared prepared, const OpCall& call, const std::vector<HostTensor>& inputs) {
  auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared);
  if (kernel == nullptr) {
    ADD_FAILURE() << std::get<Declined>(prepared).why;
    return {};
  }
  std::vector<void*> memory;
  const auto allocate = [&](std::int64_t bytes) {
    memory.push_back(nullptr);
    NEAP_CHECK_CUDA(cudaMalloc(&memory.back(), static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16))));
    return static_cast<std::byte*>(memory.back());
  };
  std::vector<const std::byte*> in;
  for (const HostTensor& t : inputs) {
    std::byte* at = allocate(t.type.bytes());
    NEAP_CHECK_CUDA(cudaMemcpy(at, t.data.data(), t.data.size(), cudaMemcpyHostToDevice));
    in.push_back(at);
  }
  std::vector<std::byte*> out = {allocate(call.outputs[0].bytes())};
  std::byte* workspace = allocate((*kernel)->workspace_bytes());
  CudaStream stream(CudaContext::get().compute());
  NEAP_CHECK_CUDA(cudaDeviceSynchronize());
  (*kernel)->launch({.inputs = in, .outputs = out, .workspace = workspace}, stream);
  NEAP_CHECK_CUDA(cudaDeviceSynchronize());
  std::vector<std::byte> result(static_cast<std::size_t>(call.outputs[0].bytes()));
  NEAP_CHECK_CUDA(cudaMemcpy(result.data(), out[0], result.size(), cudaMemcpyDeviceToHost));
  for (void* p : memory) cudaFree(p);
  return result;
}

void expect_same_bits(const TiledProgram& program, const std::vector<HostTensor>& inputs) {
  OpCall call{.op = &op_named("fused"), .attrs = to_attrs(program)};
  for (const HostTensor& t : inputs) call.inputs.emplace_back(t.type);
  call.outputs = call.op->infer(call);
  const auto generated = run(ops::fused_generated_cuda(call), call, inputs);
  const auto apart = run(ops::fused_steps_cuda(call), call, inputs);
  EXPECT_FALSE(generated.empty());
  EXPECT_TRUE(generated == apart);
}

TEST(FusedOnCuda, HasTheBitsOfItsSteps) {
  const HostTensor x = random_tensor({DType::kF32, {300, 70}}, 1, -3, 3);
  const HostTensor bias = random_tensor({DType::kF32, {70}}, 2);
  const HostTensor factor = random_tensor({DType::kF32, {300, 1}}, 3);
  HostTensor key({DType::kU64, {3}});
  key.as<std::uint64_t>()[0] = 5;
  key.as<std::uint64_t>()[1] = 2;
  const TiledProgram program = {
      .steps = {step("add", {0, 1}), step("sigmoid", {4}), step("mul", {4, 5}), step("mul", {6, 2}),
                step("dropout", {7, 3}, {{"p", 0.25}, {"key", std::int64_t{7}}}), step("add", {8, 0}),
                step("tanh", {9}), step("elu", {10}, {{"alpha", 0.7}}), step("relu", {11}), step("div", {12, 0}),
                step("gelu", {13}, {{"approximate", std::string("tanh")}})},
      .axes = 1};
  expect_same_bits(program, {x, bias, factor, key});
}

TEST(FusedOnCuda, GradientsToo) {
  const HostTensor dy = random_tensor({DType::kF32, {33, 17}}, 4);
  const HostTensor x = random_tensor({DType::kF32, {33, 17}}, 5);
  const TiledProgram program = {.steps = {step("gelu_grad", {0, 1}), step("tanh_grad", {2, 1}), step("square", {3})},
                                .axes = 1};
  expect_same_bits(program, {dy, x});
}

}  // namespace
}  // namespace neap
