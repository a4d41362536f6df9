// The pass `layout` on what exporters leave in ONNX files.
#include "onnx/model_testing.h"
#include "optimize/layout.h"
#include "optimize/once.h"

namespace neap::onnx::testing {
namespace {

// As exporters write it: weights [out, in] behind a Transpose, an activation between transposes, products of a tensor
// with its own transpose. The importer does the first two by itself; two are left.
Maker exported() {
  Maker m;
  m.input("x", "batch 6 64").weight("w1", {128, 64}).weight("w2", {64, 128}).weight("b1", {128});
  m.node("Transpose", "w1", "w1t", {{"perm", Ints{1, 0}}}).node("MatMul", "x w1t", "h1").node("Add", "h1 b1", "h2");
  m.node("Transpose", "h2", "t1", {{"perm", Ints{0, 2, 1}}}).node("Tanh", "t1", "r");
  m.node("Transpose", "r", "t2", {{"perm", Ints{0, 2, 1}}});
  m.node("Transpose", "w2", "w2t", {{"perm", Ints{1, 0}}}).node("MatMul", "t2 w2t", "y");
  m.node("Transpose", "y", "yt", {{"perm", Ints{0, 2, 1}}}).node("MatMul", "y yt", "scores").output("scores");
  m.node("Transpose", "h2", "h2t", {{"perm", Ints{0, 2, 1}}}).node("MatMul", "h2t y", "mixed").output("mixed");
  return m;
}

std::ptrdiff_t count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op->name == op; });
}

TEST(OnnxLayoutPass, LeavesNoTransposeAndEveryBit) {
  Maker m = exported();
  const Graph before = import_plain(m, {}, Mode::kEvaluation);
  const Graph after = with_layout(before);
  EXPECT_EQ(count(before, "transpose"), 2) << print(before);
  EXPECT_EQ(count(after, "transpose"), 0) << print(after);
  HostTensor x(before.at(*before.find("x")).type);
  for (std::int64_t i = 0; i < x.type.elements(); ++i) x.floats()[i] = static_cast<float>(i % 17) / 8 - 1;
  const auto was = evaluate(before, {{"x", x}});
  const auto is = evaluate(after, {{"x", x}});
  for (const char* output : {"scores", "mixed"}) {
    EXPECT_EQ(is[after.output(output)->index].data, was[before.output(output)->index].data) << output;
  }
  EXPECT_EQ(count(split_once(after).rest, "pack_linear"), 0);
}

}  // namespace
}  // namespace neap::onnx::testing
