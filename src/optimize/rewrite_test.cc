#include "optimize/rewrite.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "neap/builder.h"
#include "optimize/fuse_elementwise.h"
#include "optimize/optimize_testing.h"

namespace neap {
namespace {

// Of 1 MiB a tensor, so that fusion joins them.
Graph chain() {
  Builder g;
  const Value x = g.parameter("x", {1024, 256}, Init::normal(1));
  const Value first = g("exp", {x}, {}, "first");
  const Value second = g("tanh", {g("sigmoid", {first}, {}, "inside")}, {}, "second");
  g.output("first", first);
  g.output("loss", g("reduce_mean", {second}, {{"keepdims", std::int64_t{0}}}, "mean"));
  return g.take();
}

std::string_view name_at(const Graph& graph, NodeId id) { return graph.at(id).name; }

TEST(Counterparts, AreTheNodesThemselvesWhereNothingChanged) {
  const Graph graph = chain();
  const auto same = counterparts(graph, graph);
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(same[i].index, i);
}

// The work of a node that is gone is done where its readers' is.
TEST(Counterparts, FollowTheReadersOfWhatIsGone) {
  const Graph before = chain();
  const Graph after = fuse_elementwise(before);
  ASSERT_EQ(count_of(after, "fused"), 1) << print(after);
  const auto now = counterparts(before, after);
  ASSERT_EQ(now.size(), before.nodes.size());
  for (std::uint32_t i = 0; i < before.nodes.size(); ++i) {
    const std::string& was = before.nodes[i].name;
    const std::string_view is = name_at(after, now[i]);
    if (was == "first" || was == "mean") {
      EXPECT_EQ(is, was);
    } else {
      EXPECT_EQ(after.at(now[i]).op->name, "fused") << was;
    }
  }
}

// Where the name has gone too, the tensor's tells.
TEST(Counterparts, KnowRenamedNodesByWhatTheyMake) {
  const Graph before = chain();
  Rewrite rewrite(before);
  for (std::uint32_t i = 0; i < before.nodes.size(); ++i) {
    if (before.nodes[i].name != "second") continue;
    Node node = before.nodes[i];
    node.name = "another";
    const std::vector<TensorId> outputs = node.outputs;
    node.outputs.clear();
    rewrite.put({i}, std::move(node), outputs);
    rewrite.remove({i});
  }
  const Graph after = rewrite.finish();
  const auto now = counterparts(before, after);
  for (std::uint32_t i = 0; i < before.nodes.size(); ++i) {
    const std::string& was = before.nodes[i].name;
    EXPECT_EQ(name_at(after, now[i]), was == "second" ? "another" : was);
  }
}

}  // namespace
}  // namespace neap
