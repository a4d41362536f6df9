#include "mixed/gelu_layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/autodiff.h"
#include "graph/op.h"
#include "mixed/mixed.h"
#include "ops/evaluate.h"
#include "ops/op_check.h"

namespace neap {
namespace {

struct Form {
  std::int64_t width = 16;
  std::string approximate = "tanh";
  int layers = 1;            // pairs of linear and gelu
  bool reads_inner = false;  // what goes into gelu is a result too
};

// Layers with gelu behind each, one more layer, and the mean of squares.
Graph forward(const Form& form) {
  Builder g;
  Value x = g.input("x", DType::kF32, {6, form.width});
  for (int i = 0; i <= form.layers; ++i) {
    const std::string n = std::to_string(i);
    const Value w = g.parameter("w" + n, {form.width, form.width}, Init::normal(1));
    const Value b = g.parameter("b" + n, {form.width}, Init::normal(1));
    x = g("linear", {x, w, b}, {}, "h" + n);
    if (i == 0 && form.reads_inner) g.output("inner", x);
    if (i < form.layers) x = g("gelu", {x}, {{"approximate", form.approximate}}, "g" + n);
  }
  g.output("loss", g("reduce_mean", {g("mul", {x, x}, {}, "squares")}, {}, "loss"));
  return g.take();
}

Graph step_of(Graph graph) {
  const std::vector<TensorId> parameters = graph.with_role(Role::kParameter);
  const TensorId loss = *graph.output("loss");
  Builder g(std::move(graph));
  const auto gradients = differentiate(g, loss, parameters);
  for (const auto& [id, value] : gradients) g.output("d" + g.graph().at(id).name, value);
  return g.take();
}

std::int64_t count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op->name == op; });
}

std::map<std::string, HostTensor> leaves_of(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  std::uint64_t key = 7;
  for (const Tensor& t : graph.tensors) {
    if (!t.producer) out[t.name] = random_tensor(t.type, ++key);
  }
  return out;
}

// Every result of the step is the same.
void expect_same_step(const Form& form) {
  const Graph plain = step_of(forward(form));
  const Graph joined = with_gelu_gradients(step_of(with_gelu_layers(forward(form))));
  const auto leaves = leaves_of(plain);
  const auto want = evaluate(plain, leaves);
  const auto got = evaluate(joined, leaves);
  ASSERT_EQ(plain.outputs.size(), joined.outputs.size());
  for (const auto& [label, id] : plain.outputs) {
    expect_same(got[joined.output(label)->index], want[id.index], 1e-5, label);
  }
}

TEST(GeluLayers, BecomeOneNode) {
  const Graph graph = with_gelu_layers(forward({}));
  EXPECT_EQ(count(graph, "gelu"), 0);
  EXPECT_EQ(count(graph, "linear_gelu"), 1);
  EXPECT_EQ(count(graph, "linear"), 1);
}

TEST(GeluLayers, StayWhereTheyDoNotFit) {
  EXPECT_EQ(count(with_gelu_layers(forward({.approximate = "none"})), "linear_gelu"), 0);
  EXPECT_EQ(count(with_gelu_layers(forward({.width = 12})), "linear_gelu"), 0);
  EXPECT_EQ(count(with_gelu_layers(forward({.reads_inner = true})), "linear_gelu"), 0);
}

TEST(GeluLayers, GradientBecomesOneNode) {
  const Graph graph = with_gelu_gradients(step_of(with_gelu_layers(forward({}))));
  EXPECT_EQ(count(graph, "gelu_linear_grad"), 1);
  EXPECT_EQ(count(graph, "gelu_grad"), 0);
  EXPECT_EQ(count(graph, "linear_grad_weight"), 2);
  const auto readers = [&](TensorId id) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
      return std::find(n.inputs.begin(), n.inputs.end(), id) != n.inputs.end();
    });
  };
  for (const Node& node : graph.nodes) {
    if (node.op->name == "gelu_linear_grad") {
      EXPECT_TRUE(readers(node.outputs[1])) << "the weight's gradient reads gelu from here";
      EXPECT_EQ(graph.output("db0"), node.outputs[2]);
    }
    if (node.op->name == "linear_gelu") {
      EXPECT_TRUE(readers(node.outputs[1]));
    }
  }
}

TEST(GeluLayers, ResultsAreTheSame) {
  expect_same_step({});
  expect_same_step({.layers = 3});
  expect_same_step({.reads_inner = true});
  expect_same_step({.approximate = "none"});
}

TEST(GeluLayers, AreNarrowInBf16) {
  const Graph graph = with_bf16(with_gelu_gradients(step_of(with_gelu_layers(forward({})))));
  for (const Node& node : graph.nodes) {
    if (node.op->name != "gelu_linear_grad") continue;
    EXPECT_EQ(graph.at(node.outputs[0]).type.dtype, DType::kBF16);
    EXPECT_EQ(graph.at(node.outputs[1]).type.dtype, DType::kBF16);
    EXPECT_EQ(graph.at(node.outputs[2]).type.dtype, DType::kF32);
  }
}

}  // namespace
}  // namespace neap
