// Every kernel that takes bf16, forward and backward, against the reference, which computes in f32 and rounds.
#include <fmt/format.h>

#include <optional>

#include "graph/op.h"
#include "mixed/mixed.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Case {
  std::string op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
  double tolerance = 1.0 / 64;
  std::optional<std::size_t> absent = {};
  double range = 1;  // of the inputs' numbers
  bool is_dy_narrow = false;
  std::vector<std::size_t> flows = {0};  // outputs that have a gradient
};

// The op, its gradient, and casts; behind it a product, so that the result may be bf16.
Graph graph_of(const Case& c, std::map<std::string, HostTensor>& leaves) {
  Builder g;
  Values inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    if (c.absent == i) {
      inputs.emplace_back();
      continue;
    }
    inputs.push_back(g.input(name, c.inputs[i].dtype, c.inputs[i].shape));
    leaves[name] = random_tensor(c.inputs[i], 100 + i, -c.range, c.range, 5);
  }
  const Values outputs = g.add(c.op, inputs, c.attrs, "y");
  Values dy(outputs.size());
  for (const std::size_t i : c.flows) {
    const TensorType type = g.type(outputs[i]);
    const std::string name = fmt::format("dy{}", i);
    dy[i] = g.input(name, type.dtype, type.shape);
    leaves[name] = random_tensor(type, 900 + i);
  }
  const Node node = g.graph().nodes.at(0);
  if (node.op->gradient != nullptr && node.op->name != "linear_loss" && node.op->name != "batch_norm_apply") {
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      wanted.push_back(c.inputs[i].dtype == DType::kF32 && c.absent != i);
    }
    GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted};
    node.op->gradient(call);
  }
  return g.take();
}

// All activations of products are bf16; of other ops those that are asked for.
Graph narrowed(Graph graph, bool all) {
  if (!all) return with_bf16(graph);
  for (Tensor& t : graph.tensors) {
    const bool is_large = t.type.shape.rank() > 1;
    if (t.type.dtype == DType::kF32 && is_large) t.type.dtype = DType::kBF16;
  }
  return graph;
}

void check(const Case& c, bool all) {
  std::map<std::string, HostTensor> leaves;
  Graph graph = narrowed(graph_of(c, leaves), all);
  for (Tensor& t : graph.tensors) {
    if (c.is_dy_narrow && t.name == "dy0") t.type.dtype = DType::kBF16;
  }
  for (const Tensor& t : graph.tensors) {
    if (t.producer || t.type.dtype != DType::kBF16) continue;
    leaves[t.name] = random_tensor(t.type, 77);
  }
  const auto values = evaluate(graph, leaves, "ref");
  for (const Node& node : graph.nodes) {
    NodeCase n{.call = call_of(graph, node), .tolerance = c.tolerance};
    if (node.op->view_offset != nullptr && node.op->view_offset(n.call).has_value()) continue;
    for (const TensorId id : node.inputs) n.inputs.push_back(id ? &values[id.index] : nullptr);
    for (const TensorId id : node.outputs) n.want.push_back(&values[id.index]);
    n.what = fmt::format("{} of bf16 in {}", node.op->name, c.op);
    check_node_on_cuda(n);
  }
}

TEST(Bf16, Products) {
  for (const std::int64_t rows : {8, 40, 200}) {
    check({.op = "linear", .inputs = {f32({rows, 64}), f32({48, 64}), f32({48})}}, false);
    check({.op = "linear", .inputs = {f32({2, rows, 72}), f32({72, 24})}, .attrs = {{"transposed", std::int64_t{1}}}},
          false);
  }
  check({.op = "matmul", .inputs = {f32({3, 16, 40}), f32({3, 40, 24})}}, false);
}

// By the library's epilogues, and by passes of ours where more is wanted.
TEST(Bf16, GeluLayers) {
  const Attrs more{{"more", std::int64_t{1}}};
  for (const std::int64_t rows : {1, 40, 700}) {
    check({.op = "linear_gelu", .inputs = {f32({rows, 64}), f32({48, 64}), f32({48})}}, false);
    check({.op = "linear_gelu", .inputs = {f32({2, rows, 72}), f32({264, 72})}}, false);
    for (const Attrs& attrs : {Attrs{}, more}) {
      check({.op = "gelu_linear_grad",
             .inputs = {f32({rows, 40}), f32({40, 72}), f32({rows, 72})},
             .attrs = attrs,
             .tolerance = 1.0 / 32,
             .flows = {}},
            false);
    }
  }
}

TEST(Bf16, Attention) {
  for (const std::int64_t length : {1, 16, 64, 100, 128, 200}) {
    for (const std::int64_t causal : {0, 1}) {
      check({.op = "attention",
             .inputs = {f32({2, length, 3, 2, 64})},
             .attrs = {{"causal", causal}},
             .tolerance = 1.0 / 32},
            false);
    }
  }
}

TEST(Bf16, AttentionOfGroups) {
  check({.op = "attention",
         .inputs = {f32({1, 70, 4, 64}), f32({1, 90, 2, 64}), f32({1, 90, 2, 64})},
         .attrs = {{"causal", std::int64_t{1}}, {"causal_offset", std::int64_t{20}}},
         .tolerance = 1.0 / 32},
        false);
}

TEST(Bf16, Norms) {
  for (const std::int64_t width : {8, 256, 264, 768, 2048}) {
    const Case c{.op = "layer_norm", .inputs = {f32({37, width}), f32({width}), f32({width})}};
    check(c, false);
    check(c, true);
  }
}

TEST(Bf16, Elementwise) {
  for (const std::int64_t n : {1, 7, 64, 1000}) {
    check({.op = "gelu", .inputs = {f32({3, n})}, .attrs = {{"approximate", std::string("tanh")}}}, true);
    check({.op = "gelu", .inputs = {f32({3, n})}}, true);
    check({.op = "add", .inputs = {f32({3, n}), f32({3, n})}}, true);
    check({.op = "mul", .inputs = {f32({3, n}), f32({3, n})}}, true);
  }
}

TEST(Bf16, Convolutions) {
  const Attrs plain{
      {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  const Attrs strided{
      {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  const Attrs point{
      {"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  check({.op = "conv", .inputs = {f32({2, 9, 9, 16}), f32({24, 3, 3, 16})}, .attrs = plain, .tolerance = 1.0 / 32},
        false);
  check({.op = "conv", .inputs = {f32({2, 12, 12, 3}), f32({16, 3, 3, 3})}, .attrs = strided, .tolerance = 1.0 / 32},
        false);
  check({.op = "conv", .inputs = {f32({2, 7, 7, 16}), f32({32, 1, 1, 16})}, .attrs = point, .tolerance = 1.0 / 32},
        false);
}

TEST(Bf16, BatchNorm) {
  for (const std::int64_t relu : {0, 1}) {
    const Case c{.op = "batch_norm_apply",
                 .inputs = {f32({5, 3, 3, 16}), f32({16}), f32({16}), f32({16}), f32({16}), f32({5, 3, 3, 16})},
                 .attrs = {{"relu", relu}},
                 .tolerance = 1.0 / 32};
    check(c, true);
  }
  for (const std::int64_t c : {8, 16, 64, 72, 264}) {
    const TensorType large = f32({5, 9, 9, c});
    const TensorType channels = f32({c});
    const TensorType mask = {DType::kBits, {5, 9, 9, c}};
    for (const std::int64_t relu : {0, 1}) {
      check({.op = "batch_norm_grad",
             .inputs = {large, large, channels, channels, channels, mask, channels},
             .attrs = {{"relu", relu}},
             .tolerance = 1.0 / 32},
            true);
    }
    // The gate by its sign.
    check({.op = "batch_norm_grad",
           .inputs = {large, large, channels, channels, channels, mask, channels},
           .attrs = {{"relu", std::int64_t{1}}},
           .tolerance = 1.0 / 32,
           .absent = 5},
          true);
    check({.op = "batch_stats", .inputs = {f32({700, c})}, .tolerance = 1.0 / 64}, true);
  }
}

// Of parts of a batch.
TEST(Bf16, Moments) {
  for (const std::int64_t c : {8, 16, 64, 72, 264}) {
    const TensorType large = f32({5, 9, 9, c});
    const TensorType channels = f32({c});
    check({.op = "moments", .inputs = {large}, .tolerance = 1.0 / 64, .flows = {0, 1}}, true);
    for (const std::optional<std::size_t> absent : {std::optional<std::size_t>{}, {2}, {3}, {4}}) {
      check({.op = "moments_grad",
             .inputs = {large, channels, channels, channels, large},
             .tolerance = 1.0 / 32,
             .absent = absent,
             .flows = {}},
            true);
    }
  }
}

// Added to a sum of f32, where that lies.
TEST(Bf16, WeightsGradientsAreAdded) {
  for (const std::int64_t transposed : {0, 1}) {
    check({.op = "linear_add_weight",
           .inputs = {f32({40, 24}), f32({40, 48}), f32(transposed != 0 ? Shape{24, 48} : Shape{48, 24})},
           .attrs = {{"transposed", transposed}},
           .flows = {}},
          false);
  }
  const auto attrs = [](std::int64_t kernel, std::int64_t pad) -> Attrs {
    return {{"kernel", Ints{kernel, kernel}},
            {"strides", Ints{1, 1}},
            {"pads", Ints{pad, pad, pad, pad}},
            {"dilations", Ints{1, 1}}};
  };
  for (const std::optional<std::size_t> absent : {std::optional<std::size_t>{}, {2}}) {
    check({.op = "conv_add_weight",
           .inputs = {f32({2, 9, 9, 16}), f32({2, 9, 9, 24}), f32({24, 3, 3, 16})},
           .attrs = attrs(3, 1),
           .tolerance = 1.0 / 32,
           .absent = absent,
           .flows = {}},
          false);
    check({.op = "conv_add_weight",
           .inputs = {f32({2, 7, 7, 16}), f32({2, 7, 7, 32}), f32({32, 1, 1, 16})},
           .attrs = attrs(1, 0),
           .tolerance = 1.0 / 32,
           .absent = absent,
           .flows = {}},
          false);
  }
}

TEST(Bf16, MaxPool) {
  for (const std::int64_t c : {12, 16}) {  // one by one, eight by eight
    for (const std::int64_t stride : {1, 2, 3}) {
      const Attrs attrs{{"kernel", Ints{3, 2}}, {"strides", Ints{stride, 2}}, {"pads", Ints{1, 1, 1, 0}}};
      check({.op = "max_pool", .inputs = {f32({2, 9, 10, c})}, .attrs = attrs}, true);
    }
  }
  const Attrs dilated{{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"dilations", Ints{2, 2}}};
  check({.op = "max_pool", .inputs = {f32({2, 9, 9, 16})}, .attrs = dilated}, true);
}

TEST(Bf16, LongSums) {
  check({.op = "linear", .inputs = {f32({2048, 64}), f32({64, 64})}, .tolerance = 1.0 / 16}, false);
}

TEST(Bf16, Lstm) {
  for (const char* gates : {"keep", "recompute"}) {
    check({.op = "lstm_chunk",
           .inputs = {f32({6, 4, 24}), f32({64, 24}), f32({64, 16}), f32({64}), f32({64})},
           .attrs = {{"gates", std::string(gates)}},
           .tolerance = 1.0 / 32},
          false);
  }
}

// All steps in one launch.
TEST(Bf16, LstmInOneLaunch) {
  const auto chunk = [](std::int64_t steps, std::int64_t batch, std::int64_t hidden, std::int64_t reverse, bool state) {
    std::vector<TensorType> inputs = {f32({steps, batch, 32}), f32({4 * hidden, 32}), f32({4 * hidden, hidden}),
                                      f32({4 * hidden}), f32({4 * hidden})};
    if (state) inputs.insert(inputs.end(), {{DType::kI32, {batch}}, f32({batch, hidden}), f32({batch, hidden})});
    return Case{.op = "lstm_chunk",
                .inputs = inputs,
                .attrs = {{"reverse", reverse}},
                .tolerance = 1.0 / 32,
                .absent = 5,
                .range = 0.1,
                .flows = state ? std::vector<std::size_t>{0, 1, 4} : std::vector<std::size_t>{0}};
  };
  check(chunk(5, 64, 256, 0, true), false);
  check(chunk(4, 50, 256, 1, true), false);
  check(chunk(3, 7, 512, 0, false), false);
  Case narrow = chunk(3, 33, 256, 0, true);
  narrow.is_dy_narrow = true;
  check(narrow, false);
  check(chunk(2, 20, 1024, 0, true), false);
  Case again = chunk(4, 50, 256, 1, true);
  again.attrs.set("gates", std::string("recompute"));
  check(again, false);
}

TEST(Bf16, Gru) {
  for (const bool is_dy_narrow : {false, true}) {
    for (const char* gates : {"keep", "recompute"}) {
      check({.op = "gru_chunk",
             .inputs = {f32({6, 4, 24}), f32({48, 24}), f32({48, 16}), f32({48}), f32({48})},
             .attrs = {{"gates", std::string(gates)}},
             .tolerance = 1.0 / 32,
             .is_dy_narrow = is_dy_narrow},
            false);
    }
  }
}

TEST(Bf16, Loss) {
  check({.op = "linear_loss", .inputs = {f32({300, 32}), f32({64, 32}), f32({64}), {DType::kI64, {300}}}}, false);
}

}  // namespace
}  // namespace neap
