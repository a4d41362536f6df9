// Times linear layers, attention and what surrounds them, at the sizes of gpt-mini (batch 8) and bert-mini (batch 16):
// best of several runs.
//   OMP_NUM_THREADS=2 build/bench/products_bench [part of a name]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/random.h"
#include "ops/evaluate.h"

namespace {

using neap::Attrs;
using neap::DType;
using neap::Shape;
using neap::TensorType;

class HostStream final : public neap::Stream {};

struct Case {
  std::string label;
  std::string op;
  std::vector<std::optional<TensorType>> inputs;
  Attrs attrs = {};
  std::int64_t bound = 256;  // of integers
};

void fill(const TensorType& type, std::int64_t bound, std::byte* at) {
  neap::RandomStream random(1);
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    const double unit = random.uniform();
    if (type.dtype == DType::kF32) reinterpret_cast<float*>(at)[i] = static_cast<float>(2 * unit - 1);
    if (type.dtype == DType::kI32) {
      reinterpret_cast<std::int32_t*>(at)[i] = static_cast<std::int32_t>(unit * static_cast<double>(bound));
    }
  }
}

double best_seconds(neap::Kernel& kernel, const neap::Buffers& buffers) {
  HostStream stream;
  double best = 1e9;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernel.launch(buffers, stream);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void run(const Case& c, const neap::KernelEntry& entry) {
  neap::OpCall call{.op = &neap::op_named(c.op), .attrs = c.attrs, .inputs = c.inputs, .outputs = {}};
  call.outputs = call.op->infer(call);
  neap::Prepared prepared = entry.prepare(call);
  auto* kernel = std::get_if<std::unique_ptr<neap::Kernel>>(&prepared);
  if (kernel == nullptr) return;
  const std::int64_t workspace = (*kernel)->workspace_bytes();
  std::int64_t total = neap::align_up(workspace);
  for (const auto& type : c.inputs) total += type ? neap::align_up(type->bytes()) : 0;
  for (const TensorType& type : call.outputs) total += neap::align_up(type.bytes());
  // As in training: one arena, of huge pages.
  const auto device = neap::make_cpu_device(0);
  const auto arena = device->make_arena(total, false);
  std::byte* next = arena->base() + neap::align_up(workspace);
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const auto& type : c.inputs) {
    in.push_back(type ? next : nullptr);
    if (type) fill(*type, c.bound, next);
    next += type ? neap::align_up(type->bytes()) : 0;
  }
  for (const TensorType& type : call.outputs) {
    out.push_back(next);
    next += neap::align_up(type.bytes());
  }
  const double s = best_seconds(**kernel, {.inputs = in, .outputs = out, .workspace = arena->base()});
  fmt::print("{:34} {:7} {:8.3f} ms {:8.1f} GFLOP/s {:7.1f} GB/s  workspace {} KiB\n", c.label, entry.name, s * 1e3,
             neap::flops_of(call) / s * 1e-9, neap::traffic_of(call) / s * 1e-9, workspace / 1024);
}

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
const Attrs kCausal = {{"causal", std::int64_t{1}}};

void add_linear(std::vector<Case>& all, std::int64_t in, std::int64_t out) {
  const std::int64_t rows = 2048;
  const std::string size = fmt::format("{}x{}", in, out);
  all.push_back({"linear " + size, "linear", {f32({rows, in}), f32({out, in}), f32({out})}});
  all.push_back({"linear dx " + size, "matmul", {f32({rows, out}), f32({out, in})}});
  all.push_back(
      {"linear dw " + size, "linear_grad_weight", {f32({rows, in}), f32({rows, out})}, {{"shape", Shape{out, in}}}});
  all.push_back(
      {"linear^T " + size, "linear", {f32({rows, in}), f32({in, out}), f32({out})}, {{"transposed", std::int64_t{1}}}});
  all.push_back({"linear^T dw " + size,
                 "linear_grad_weight",
                 {f32({rows, in}), f32({rows, out})},
                 {{"shape", Shape{in, out}}, {"transposed", std::int64_t{1}}}});
}

void add_attention(std::vector<Case>& all, std::int64_t batch, std::int64_t heads, std::int64_t time,
                   std::int64_t depth, const Attrs& attrs) {
  const std::string size =
      fmt::format("{}x{}x{}x{}{}", batch, heads, time, depth, attrs.has("causal") ? " causal" : "");
  const TensorType qkv = f32({batch, time, 3, heads, depth});
  const TensorType out = f32({batch, time, heads, depth});
  const TensorType lse = f32({batch, heads, time});
  all.push_back({"attention " + size, "attention", {qkv}, attrs});
  all.push_back({"attention grad " + size, "attention_grad", {out, qkv, std::nullopt, std::nullopt, out, lse}, attrs});
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  add_linear(all, 384, 1152);
  add_linear(all, 384, 384);
  add_linear(all, 384, 1536);
  add_linear(all, 1536, 384);
  add_linear(all, 384, 256);
  add_linear(all, 256, 768);
  add_linear(all, 256, 256);
  add_linear(all, 256, 1024);
  add_linear(all, 1024, 256);
  add_attention(all, 8, 6, 256, 64, kCausal);
  add_attention(all, 8, 6, 256, 64, {});
  add_attention(all, 16, 4, 128, 64, {});
  add_attention(all, 1, 12, 1024, 64, kCausal);
  const TensorType targets = {DType::kI32, {2048}};
  all.push_back({"softmax 2048x256", "softmax", {f32({2048, 256})}});
  all.push_back({"softmax 64x50257", "softmax", {f32({64, 50257})}});
  all.push_back({"log_softmax 2048x256", "log_softmax", {f32({2048, 256})}});
  all.push_back({"cross_entropy 2048x256", "cross_entropy", {f32({2048, 256}), targets}});
  all.push_back(
      {"cross_entropy grad 2048x256", "cross_entropy_grad", {f32({}), f32({2048, 256}), targets, f32({2048})}});
  all.push_back({"embedding 2048 of 256x384", "embedding", {f32({256, 384}), targets}});
  all.push_back(
      {"embedding grad 2048 of 256x384", "embedding_grad", {targets, f32({2048, 384})}, {{"shape", Shape{256, 384}}}});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  const std::string kernel = argc > 2 ? argv[2] : "";
  for (const Case& c : all_cases()) {
    if (c.label.find(part) == std::string::npos || neap::find_op(c.op) == nullptr) continue;
    const neap::OpDef& op = neap::op_named(c.op);
    for (std::size_t i = 0; i + 1 < op.kernel_count; ++i) {
      if (kernel.empty() || op.kernels[i].name == kernel) run(c, op.kernels[i]);
    }
  }
  return 0;
}
