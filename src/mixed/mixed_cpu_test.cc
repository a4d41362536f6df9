// Every kernel of the CPU that takes bf16, forward and backward, against the reference, which computes in f32 and
// rounds; and those of our own: the same bits on any number of threads.
#include <fmt/format.h>
#include <omp.h>

#include <cmath>

#include "core/bytes.h"
#include "graph/op.h"
#include "mixed/mixed.h"
#include "ops/convert_kernel.h"
#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Case {
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  double tolerance = 1.0 / 64;
  bool narrows_all = false;  // else as training does it
};

// The op, its gradient, and casts; behind it a product, so that the result may be bf16.
Graph graph_of(const Case& c, std::map<std::string, HostTensor>& leaves) {
  Builder g;
  Values inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    inputs.push_back(g.input(name, c.inputs[i].dtype, c.inputs[i].shape));
    leaves[name] = random_tensor(c.inputs[i], 100 + i, -1, 1, 5);
  }
  const Values outputs = g.add(c.op, inputs, c.attrs, "y");
  const TensorType type = g.type(outputs[0]);
  Values dy(outputs.size());
  dy[0] = g.input("dy", type.dtype, type.shape);
  leaves["dy"] = random_tensor(type, 900);
  const Node node = g.graph().nodes.at(0);
  if (node.op->gradient != nullptr && node.op->name != "linear_loss" && node.op->name != "batch_norm_apply") {
    std::vector<bool> wanted;
    for (const TensorType& t : c.inputs) wanted.push_back(t.dtype == DType::kF32);
    GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted};
    node.op->gradient(call);
  }
  return g.take();
}

Graph narrowed(Graph graph, bool all) {
  if (!all) return with_bf16(graph);
  for (Tensor& t : graph.tensors) {
    if (t.type.dtype == DType::kF32 && t.type.shape.rank() > 1) t.type.dtype = DType::kBF16;
  }
  return graph;
}

struct NodeRun {
  OpCall call;
  std::vector<const HostTensor*> inputs;

  std::vector<HostTensor> by(std::string_view name) const {
    const auto kernel = prepare_cpu_kernel(call, name);
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::vector<HostTensor> made;
    for (const HostTensor* t : inputs) in.push_back(t != nullptr ? t->data.data() : nullptr);
    for (const TensorType& t : call.outputs) made.emplace_back(t);
    for (HostTensor& t : made) out.push_back(t.data.data());
    const auto bytes = static_cast<std::size_t>(align_up(kernel->workspace_bytes() + 1));
    const std::unique_ptr<std::byte, void (*)(void*)> workspace(
        static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kAlignment), bytes)), std::free);
    std::fill_n(workspace.get(), bytes, std::byte{0x7F});  // numbers that are not: what is read was written
    Stream stream;
    kernel->launch({.inputs = in, .outputs = out, .workspace = workspace.get()}, stream);
    return made;
  }
};

void expect_near(const HostTensor& got, const HostTensor& want, double tolerance, const std::string& what) {
  if (!is_float(want.type.dtype)) {
    EXPECT_EQ(got.data, want.data) << what;
    return;
  }
  const auto a = numbers_of(got);
  const auto b = numbers_of(want);
  for (std::size_t i = 0; i < b.size(); ++i) {
    ASSERT_LE(std::abs(a[i] - b[i]), tolerance * (1 + std::abs(b[i])))
        << what << " at " << i << ": " << a[i] << ", " << b[i];
  }
}

// A library's sums may depend on the threads, which are then part of numerics_id; ours do not.
void expect_same_on_threads(const NodeRun& run, const std::string& what) {
  if (!prepare_cpu_kernel(run.call)->numerics().empty()) return;
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto want = run.by({});
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    const auto got = run.by({});
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].data, want[i].data) << what << ", " << threads;
  }
  omp_set_num_threads(before);
}

void check(const Case& c) {
  std::map<std::string, HostTensor> leaves;
  const Graph graph = narrowed(graph_of(c, leaves), c.narrows_all);
  for (const Tensor& t : graph.tensors) {
    if (!t.producer && t.type.dtype == DType::kBF16) leaves[t.name] = random_tensor(t.type, 77);
  }
  const auto values = evaluate(graph, leaves, "ref");
  for (const Node& node : graph.nodes) {
    NodeRun run{.call = call_of(graph, node)};
    if (!has_bf16(run.call)) continue;
    if (node.op->view_offset != nullptr && node.op->view_offset(run.call).has_value()) continue;
    for (const TensorId id : node.inputs) run.inputs.push_back(id ? &values[id.index] : nullptr);
    for (std::size_t k = 0; k < node.op->kernel_count; ++k) {
      const KernelEntry& entry = node.op->kernels[k];
      if (entry.device != DeviceKind::kCpu) continue;
      const std::string what = fmt::format("{} by {} of bf16 in {}", node.op->name, entry.name, c.op);
      const auto got = run.by(entry.name);
      for (std::size_t i = 0; i < got.size(); ++i) {
        expect_near(got[i], values[node.outputs[i].index], c.tolerance, fmt::format("{}, output {}", what, i));
      }
    }
    expect_same_on_threads(run, fmt::format("{} in {}", node.op->name, c.op));
  }
}

TEST(Bf16OnCpu, Products) {
  for (const std::int64_t rows : {8, 40, 200}) {
    check({.op = "linear", .inputs = {f32({rows, 64}), f32({48, 64}), f32({48})}});
    check({.op = "linear", .inputs = {f32({2, rows, 72}), f32({72, 24})}, .attrs = {{"transposed", std::int64_t{1}}}});
  }
  check({.op = "matmul", .inputs = {f32({3, 16, 40}), f32({3, 40, 24})}});
  check({.op = "matmul", .inputs = {f32({2, 3, 5, 7}), f32({3, 7, 9})}, .attrs = {{"alpha", 0.5}}});
  check({.op = "linear", .inputs = {f32({2048, 64}), f32({64, 64})}, .tolerance = 1.0 / 16});
}

TEST(Bf16OnCpu, Attention) {
  for (const std::int64_t length : {1, 16, 63, 64, 100, 200}) {
    for (const std::int64_t causal : {0, 1}) {
      check({.op = "attention",
             .inputs = {f32({2, length, 3, 2, 64})},
             .attrs = {{"causal", causal}},
             .tolerance = 1.0 / 32});
    }
  }
  for (const std::int64_t depth : {2, 10, 33, 80}) {
    check({.op = "attention",
           .inputs = {f32({1, 71, 3, 2, depth})},
           .attrs = {{"causal", std::int64_t{1}}},
           .tolerance = 1.0 / 32});
  }
}

TEST(Bf16OnCpu, AttentionOfGroups) {
  for (const std::int64_t offset : {0, 5, 20, 21}) {
    check({.op = "attention",
           .inputs = {f32({1, 70, 4, 64}), f32({1, 90, 2, 64}), f32({1, 90, 2, 64})},
           .attrs = {{"causal", std::int64_t{1}}, {"causal_offset", offset}},
           .tolerance = 1.0 / 32});
  }
}

TEST(Bf16OnCpu, AttentionWithMask) {
  check({.op = "attention",
         .inputs = {f32({2, 67, 2, 16}), f32({2, 67, 2, 16}), f32({2, 67, 2, 16}), {DType::kU8, {2, 1, 67, 67}}},
         .tolerance = 1.0 / 32});
}

TEST(Bf16OnCpu, Norms) {
  for (const std::int64_t width : {8, 33, 264}) {
    for (const bool all : {false, true}) {
      check({.op = "layer_norm", .inputs = {f32({37, width}), f32({width}), f32({width})}, .narrows_all = all});
      check({.op = "rms_norm", .inputs = {f32({37, width}), f32({width})}, .narrows_all = all});
    }
  }
}

TEST(Bf16OnCpu, Elementwise) {
  for (const std::int64_t n : {1, 7, 1000, 70000}) {
    check(
        {.op = "gelu", .inputs = {f32({3, n})}, .attrs = {{"approximate", std::string("tanh")}}, .narrows_all = true});
    check({.op = "gelu", .inputs = {f32({3, n})}, .narrows_all = true});
    check({.op = "relu", .inputs = {f32({3, n})}, .narrows_all = true});
    check({.op = "add", .inputs = {f32({3, n}), f32({3, n})}, .narrows_all = true});
    check({.op = "mul", .inputs = {f32({3, n}), f32({1, n})}, .narrows_all = true});
    check({.op = "dropout",
           .inputs = {f32({3, n}), {DType::kU64, {3}}},
           .attrs = {{"p", 0.25}, {"key", std::int64_t{5}}},
           .narrows_all = true});
  }
}

TEST(Bf16OnCpu, Convolutions) {
  const Attrs plain{
      {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  const Attrs strided{
      {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  const Attrs point{
      {"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  check({.op = "conv",
         .inputs = {f32({2, 9, 9, 16}), f32({24, 3, 3, 16}), f32({24})},
         .attrs = plain,
         .tolerance = 1.0 / 32});
  check({.op = "conv", .inputs = {f32({2, 12, 12, 3}), f32({16, 3, 3, 3})}, .attrs = strided, .tolerance = 1.0 / 32});
  check({.op = "conv", .inputs = {f32({2, 7, 7, 16}), f32({32, 1, 1, 16})}, .attrs = point, .tolerance = 1.0 / 32});
}

TEST(Bf16OnCpu, BatchNorm) {
  const TensorType large = f32({5, 3, 3, 19});
  const TensorType channels = f32({19});
  const TensorType mask = {DType::kBits, {5, 3, 3, 19}};
  for (const std::int64_t relu : {0, 1}) {
    check({.op = "batch_norm_apply",
           .inputs = {large, channels, channels, channels, channels, large},
           .attrs = {{"relu", relu}},
           .tolerance = 1.0 / 32,
           .narrows_all = true});
    check({.op = "batch_norm_grad",
           .inputs = {large, large, channels, channels, channels, mask, channels},
           .attrs = {{"relu", relu}},
           .tolerance = 1.0 / 32,
           .narrows_all = true});
  }
  check({.op = "batch_stats", .inputs = {f32({700, 24})}, .narrows_all = true});
}

TEST(Bf16OnCpu, MaxPool) {
  check({.op = "max_pool",
         .inputs = {f32({2, 9, 9, 16})},
         .attrs = {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}},
         .narrows_all = true});
}

TEST(Bf16OnCpu, Recurrent) {
  check({.op = "lstm_chunk",
         .inputs = {f32({6, 4, 24}), f32({64, 24}), f32({64, 16}), f32({64}), f32({64})},
         .tolerance = 1.0 / 32});
  check({.op = "gru_chunk",
         .inputs = {f32({6, 4, 24}), f32({48, 24}), f32({48, 16}), f32({48}), f32({48})},
         .tolerance = 1.0 / 32});
}

TEST(Bf16OnCpu, Loss) {
  check({.op = "linear_loss", .inputs = {f32({300, 32}), f32({64, 32}), f32({64}), {DType::kI64, {300}}}});
}

}  // namespace
}  // namespace neap
