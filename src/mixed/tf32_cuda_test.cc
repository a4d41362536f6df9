// Every op that takes TF32, forward and backward: it is near the reference, it is another result than f32's, and the
// same one every time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "graph/op.h"
#include "mixed/tf32.h"
#include "ops/op_check_cuda.h"
#include "ops/product_math.h"

namespace neap {
namespace {

// ||error|| / ||value||. Operands lose up to 1/1024 of themselves, or half of that where they are rounded to the
// nearest; f32's sums lose some 1e-7.
constexpr double kMostOff = 3e-3;
constexpr double kLeastOff = 3e-5;
// Of one number in thousands that are sums of up to 4096 such products.
constexpr double kTolerance = 0.15;

struct Case {
  std::string op;
  std::vector<Shape> inputs;
  Attrs attrs = {};
  double most = kMostOff;
  std::vector<std::size_t> absent = {};
  std::vector<std::size_t> flows = {0};  // outputs that have a gradient; none: only the op itself
  std::optional<std::size_t> targets = {};
  double range = 1;
};

std::set<std::string>& seen() {
  static std::set<std::string> ops;
  return ops;
}

double norm(const HostTensor& t) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.type.elements(); ++i) sum += std::pow(static_cast<double>(t.floats()[i]), 2);
  return std::sqrt(sum);
}

double off(const HostTensor& got, const HostTensor& want) {
  double sum = 0;
  for (std::int64_t i = 0; i < want.type.elements(); ++i) {
    sum += std::pow(static_cast<double>(got.floats()[i]) - static_cast<double>(want.floats()[i]), 2);
  }
  return std::isfinite(sum) ? std::sqrt(sum) / norm(want) : std::numeric_limits<double>::infinity();
}

// The largest of a node's outputs; those that nothing is known of are left out.
double most_off(const std::vector<HostTensor>& got, const std::vector<const HostTensor*>& want) {
  double out = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i]->type.elements() > 0 && norm(*want[i]) > 0) out = std::max(out, off(got[i], *want[i]));
  }
  return out;
}

void check_node(const Case& c, const OpCall& call, const std::vector<const HostTensor*>& inputs,
                const std::vector<const HostTensor*>& want) {
  const std::string what = fmt::format("{} in {}", call.op->name, c.op);
  OpCall plain = call;
  plain.attrs.set(ops::kMath, std::string("f32"));
  const auto narrow = run_node_on_cuda(call, inputs);
  const auto wide = run_node_on_cuda(plain, inputs);
  ASSERT_EQ(narrow.size(), want.size()) << what;
  const double error = most_off(narrow, want);
  EXPECT_LT(error, c.most) << what;
  EXPECT_GT(error, kLeastOff) << what << ": it is not TF32";
  EXPECT_LT(most_off(wide, want), error / 4) << what << ": f32 is not f32";
  check_node_on_cuda(
      {.call = call, .inputs = inputs, .want = want, .tolerance = kTolerance, .what = what + " by TF32"});
  seen().insert(std::string(call.op->name));
}

// The op and its gradient; each node by itself, with inputs that the reference has made.
void check(const Case& c) {
  Builder g;
  std::map<std::string, HostTensor> leaves;
  const auto leaf = [&](const std::string& name, const TensorType& type, double range) {
    leaves[name] = random_tensor(type, 100 + leaves.size(), -range, range, 5);
    return g.input(name, type.dtype, type.shape);
  };
  Values inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_absent = std::ranges::find(c.absent, i) != c.absent.end();
    const DType type = c.targets == i ? DType::kI32 : DType::kF32;
    inputs.push_back(is_absent ? Value{} : leaf(fmt::format("x{}", i), {type, c.inputs[i]}, c.range));
  }
  const Values outputs = g.add(c.op, inputs, c.attrs, "y");
  Values dy(outputs.size());
  for (const std::size_t o : c.flows) dy[o] = leaf(fmt::format("dy{}", o), g.type(outputs[o]), 1);
  const Node node = g.graph().nodes.at(0);
  if (!c.flows.empty() && node.op->gradient != nullptr) {
    std::vector<bool> wanted;
    for (const Value v : inputs) wanted.push_back(static_cast<bool>(v));
    GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted};
    node.op->gradient(call);
  }
  const Graph graph = with_tf32(g.take());
  const auto values = evaluate(graph, leaves, "ref");
  for (const Node& each : graph.nodes) {
    if (!ops::is_tf32(each.attrs)) continue;
    std::vector<const HostTensor*> in;
    std::vector<const HostTensor*> want;
    for (const TensorId id : each.inputs) in.push_back(id ? &values[id.index] : nullptr);
    for (const TensorId id : each.outputs) want.push_back(&values[id.index]);
    check_node(c, call_of(graph, each), in, want);
  }
}

void check_products() {
  check({.op = "linear", .inputs = {{96, 128}, {64, 128}, {64}}});
  check({.op = "linear", .inputs = {{2, 40, 72}, {72, 24}}, .attrs = {{"transposed", std::int64_t{1}}}});
  check({.op = "matmul", .inputs = {{3, 32, 64}, {3, 64, 48}}});
  check({.op = "matmul", .inputs = {{128, 4096}, {4096, 64}}});  // sums in parts
  check({.op = "gemm", .inputs = {{64, 128}, {96, 128}, {96}}, .attrs = {{"trans_b", std::int64_t{1}}}});
  check({.op = "linear_add_weight", .inputs = {{256, 64}, {256, 96}, {96, 64}}, .flows = {}});
}

void check_convolutions() {
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  check({.op = "conv", .inputs = {{8, 16, 16, 64}, {64, 3, 3, 64}}, .attrs = same});
  check({.op = "conv", .inputs = {{8, 16, 16, 64}, {64, 1, 1, 64}, {64}}});
  check({.op = "conv_transpose", .inputs = {{8, 8, 8, 64}, {64, 3, 3, 64}}, .attrs = same});
  Attrs kernel = same;
  kernel.set("kernel", Ints{3, 3});
  check({.op = "conv_add_weight",
         .inputs = {{8, 16, 16, 64}, {8, 16, 16, 64}, {64, 3, 3, 64}},
         .attrs = kernel,
         .flows = {}});
}

void check_losses_over_a_vocabulary() {
  for (const char* op : {"vocab_loss", "vocab_delta"}) {
    check({.op = op, .inputs = {{64, 128}, {512, 128}, {512}, {64}}, .flows = {}, .targets = 3, .range = 0.5});
  }
  check({.op = "vocab_weight",
         .inputs = {{256, 256}, {512, 256}},  // of smaller ones the library makes products of f32, as it may
         .attrs = {{"first", std::int64_t{0}}, {"count", std::int64_t{512}}},
         .flows = {}});
}

// Errors grow from step to step.
void check_recurrent_layers() {
  constexpr double kMost = 2e-2;
  const std::vector<std::size_t> none = {5};
  const auto inputs = [](std::int64_t blocks) {
    return std::vector<Shape>{{6, 16, 64}, {blocks * 64, 64}, {blocks * 64, 64}, {blocks * 64}, {blocks * 64},
                              {16},        {16, 64}};
  };
  auto lstm = inputs(4);
  lstm.push_back({16, 64});
  for (const char* gates : {"keep", "recompute", "cudnn"}) {
    check({.op = "lstm_chunk",
           .inputs = lstm,
           .attrs = {{"gates", std::string(gates)}},
           .most = kMost,
           .absent = none,
           .range = 0.2});
  }
  check({.op = "gru_chunk", .inputs = inputs(3), .most = kMost, .absent = none, .range = 0.2});
  check({.op = "rnn_chunk", .inputs = inputs(1), .most = kMost, .absent = none, .range = 0.2});
}

TEST(Tf32OnCuda, EveryOpThatKnowsItTakesIt) {
  check_products();
  check_convolutions();
  check_losses_over_a_vocabulary();
  check_recurrent_layers();
  for (const std::string_view op : ops_of_tf32()) EXPECT_TRUE(seen().contains(std::string(op))) << op;
}

}  // namespace
}  // namespace neap
