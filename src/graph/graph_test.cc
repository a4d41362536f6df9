#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

const Dim kBatch = Dim::symbol("batch");

// x -> a -> b, a parameter, one output.
Graph small() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {kBatch, 6});
  g.parameter("w", {6}, Init::normal(1));
  const Value a = g("softmax", {x}, {}, "a");
  const Value b = g("reshape", {a}, {{"shape", Shape{0, 2, 3}}}, "b");
  g.output("loss", b);
  return g.take();
}

template <class Change>
void expect_refused(Change change, const std::string& why) {
  Graph graph = small();
  ASSERT_NO_THROW(verify(graph));
  change(graph);
  try {
    verify(graph);
    ADD_FAILURE() << "not refused: " << why;
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TensorId id_of(const Graph& graph, std::string_view name) { return graph.find(name).value(); }

TEST(Verify, ReadBeforeWritten) {
  expect_refused([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }, "node 'b' reads 'a' before it is written");
}

TEST(Verify, ReadsAnActivationThatNobodyWrites) {
  expect_refused([](Graph& g) { g.at(id_of(g, "x")).role = Role::kActivation; }, "reads 'x' before it is written");
}

TEST(Verify, NoSuchTensor) {
  expect_refused([](Graph& g) { g.nodes[0].inputs[0] = {77}; }, "node 'a' reads tensor 77, which does not exist");
}

TEST(Verify, WrongType) {
  expect_refused([](Graph& g) { g.at(id_of(g, "b")).type.shape = {6}; }, "output 0 of node 'b' is f32[6]");
}

TEST(Verify, WrittenTwice) {
  expect_refused([](Graph& g) { g.nodes[1].outputs[0] = g.nodes[0].outputs[0]; },
                 "'b' writes 'a', which is not its own");
}

TEST(Verify, WritesALeaf) {
  expect_refused([](Graph& g) { g.nodes[0].outputs[0] = id_of(g, "w"); }, "'a' writes 'w', which is not its own");
}

TEST(Verify, NumberOfOutputs) {
  expect_refused([](Graph& g) { g.nodes[1].outputs.clear(); }, "node 'b' has 0 outputs, its op says 1");
}

TEST(Verify, OutputNeverWritten) {
  expect_refused([](Graph& g) { g.nodes.pop_back(); }, "output 'loss' is never written");
  expect_refused([](Graph& g) { g.outputs[0].second = {}; }, "output 'loss' is never written");
}

TEST(Verify, NamesAreUnique) {
  expect_refused([](Graph& g) { g.at(id_of(g, "w")).name = "x"; }, "two tensors are named 'x'");
}

TEST(Verify, ChangesNoState) {
  static constexpr std::uint8_t kFirst[] = {0};
  static OpDef changing = *find_op("softmax");
  changing.mutates = kFirst;
  expect_refused([](Graph& g) { g.nodes[0].op = &changing; }, "node 'a' changes 'x', which is no state");
}

TEST(Graph, NamesTheOpAndItsShapesWhenTheyDoNotFit) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 3});
  try {
    g("reshape", {x}, {{"shape", Shape{7}}}, "bad");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "reshape 'bad' (f32[2,3]): shape [7] has 7 elements, the input has 6");
  }
}

TEST(Graph, TensorsHaveOneName) {
  Builder g;
  g.input("x", DType::kF32, {2});
  EXPECT_THROW(g.input("x", DType::kF32, {2}), UserError);
}

TEST(Graph, UnknownOp) {
  Builder g;
  EXPECT_THROW(g("no_such_op", {}), UserError);
}

TEST(Graph, BindInfersAnew) {
  const Graph bound = bind(small(), {{"batch", 5}});
  EXPECT_EQ(bound.at(id_of(bound, "b")).type.text(), "f32[5,2,3]");
  EXPECT_EQ(bound.output("loss"), id_of(bound, "b"));
  verify(bound);
}

TEST(Graph, BindReplacesSymbolsInAttributes) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {1, 4});
  g.output("y", g("expand", {x}, {{"shape", Shape{kBatch, 4}}}, "y"));
  const Graph bound = bind(g.take(), {{"batch", 3}});
  EXPECT_EQ(bound.at(id_of(bound, "y")).type.text(), "f32[3,4]");
}

TEST(Graph, FindsByRole) {
  const Graph graph = small();
  EXPECT_EQ(graph.with_role(Role::kParameter), std::vector<TensorId>{id_of(graph, "w")});
  EXPECT_EQ(graph.with_role(Role::kActivation).size(), 2U);
  EXPECT_FALSE(graph.find("nothing"));
  EXPECT_FALSE(graph.output("nothing"));
}

TEST(Builder, ScopesPrefixNames) {
  Builder g;
  Value y;
  {
    const Builder::Scope block(g, "blocks.0");
    const Builder::Scope fc(g, "fc");
    const Value w = g.parameter("weight", {3}, Init::constant(1));
    y = g("softmax", {w});
    g("softmax", {w});
  }
  const Graph& graph = g.graph();
  EXPECT_TRUE(graph.find("blocks.0.fc.weight"));
  EXPECT_TRUE(graph.find("blocks.0.fc.softmax"));
  EXPECT_TRUE(graph.find("blocks.0.fc.softmax.2"));
  EXPECT_EQ(graph.nodes[0].layer, "blocks.0.fc");
}

TEST(Builder, ScalarsAreShared) {
  Builder g;
  EXPECT_EQ(g.scalar(0.5), g.scalar(0.5));
  EXPECT_NE(g.scalar(0.5), g.scalar(0.25));
}

TEST(Builder, ConstantsHaveTheirBytes) {
  Builder g;
  EXPECT_THROW(g.constant("c", {DType::kF32, {2}}, std::vector<std::byte>(7)), UserError);
}

}  // namespace
}  // namespace neap
