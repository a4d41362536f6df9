#include "subgraph/subgraph.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

// Two blocks of wide layers with a narrow waist between them.
Graph waisted() {
  Builder g;
  Value x = g.input("x", DType::kF32, {64, 256});
  for (int block = 0; block < 2; ++block) {
    const Builder::Scope scope(g, "block" + std::to_string(block));
    const Value wide = g.parameter("wide", {256, block == 0 ? 256 : 8}, Init::normal(1));
    x = g("linear", {x, wide});
    for (int i = 0; i < 3; ++i) x = g("tanh", {x});
    if (block == 0) x = g("linear", {x, g.parameter("narrow", {8, 256}, Init::normal(1))});
  }
  g.output("y", x);
  return g.take();
}

constexpr Roofline kMachine = {.flops_per_ms = 1e8, .bytes_per_ms = 1e7};

// Times at a share of the roofline, one share a node.
std::vector<double> at_share(const Graph& graph, const std::vector<double>& shares) {
  std::vector<double> out;
  const auto costs = node_costs(graph, kMachine);
  for (std::size_t i = 0; i < costs.size(); ++i) out.push_back(costs[i].best_ms() / shares[i]);
  return out;
}

TEST(Subgraph, IsCutWhereTheFewestBytesCross) {
  const Graph graph = waisted();
  const SubgraphTree tree(graph, kMachine, {.initial_granularity = 1});
  const auto leaves = tree.leaves();
  ASSERT_EQ(leaves.size(), 2U);
  EXPECT_EQ(tree.all()[static_cast<std::size_t>(leaves[0])].last, 5U);  // behind the narrow layer
  EXPECT_EQ(crossing_bytes(graph)[5], 64 * 8 * 4);
}

TEST(Subgraph, GranularityIsTheDepth) {
  const Graph graph = waisted();
  for (const int depth : {1, 2, 3}) {
    const SubgraphTree tree(graph, kMachine, {.initial_granularity = depth});
    int deepest = 0;
    std::uint32_t next = 0;
    for (const int leaf : tree.leaves()) {
      const Subgraph& piece = tree.all()[static_cast<std::size_t>(leaf)];
      deepest = std::max(deepest, piece.depth);
      EXPECT_EQ(piece.first, next);
      next = piece.last;
    }
    EXPECT_EQ(deepest, depth);
    EXPECT_EQ(next, graph.nodes.size());
  }
}

TEST(Subgraph, SplitsAtTheWorstNodeAndSaysWhy) {
  const Graph graph = waisted();
  SubgraphTree tree(graph, kMachine, {.initial_granularity = 1, .window = 2, .cooldown = 2});
  std::vector<double> shares(graph.nodes.size(), 0.8);
  shares[2] = 0.01;  // a tanh of the first block
  std::vector<std::string> log;
  for (int i = 0; i < 100; ++i) {
    for (std::string& line : tree.observe(at_share(graph, shares))) log.push_back(std::move(line));
  }
  ASSERT_FALSE(log.empty());
  EXPECT_NE(log[0].find("worst is tanh 'block0.tanh.2'"), std::string::npos) << log[0];
  EXPECT_NE(log[0].find("memory allows"), std::string::npos) << log[0];
  // In the end the slow node is on its own, and nothing else was split.
  for (const int leaf : tree.leaves()) {
    const Subgraph& piece = tree.all()[static_cast<std::size_t>(leaf)];
    const bool has_it = piece.first <= 2 && 2 < piece.last;
    EXPECT_TRUE(!has_it || piece.nodes() == 1);
  }
  EXPECT_LE(log.size(), 3U);
}

TEST(Subgraph, MergesWhatStaysFast) {
  const Graph graph = waisted();
  SubgraphTree tree(graph, kMachine, {.initial_granularity = 3, .window = 2, .cooldown = 2});
  const std::size_t before = tree.leaves().size();
  std::vector<std::string> log;
  for (int i = 0; i < 40; ++i) {
    for (std::string& line : tree.observe(at_share(graph, std::vector<double>(graph.nodes.size(), 0.95)))) {
      log.push_back(std::move(line));
    }
  }
  EXPECT_EQ(tree.leaves().size(), 2U);
  EXPECT_EQ(log.size(), before - 2);
  EXPECT_NE(log[0].find("merged"), std::string::npos);
}

// A machine with noise around both thresholds: a thousand samples, and then nothing more.
TEST(Subgraph, DoesNotOscillate) {
  const Graph graph = waisted();
  SubgraphTree tree(graph, kMachine, {.initial_granularity = 2});
  std::size_t late = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> shares(graph.nodes.size());
    for (std::size_t k = 0; k < shares.size(); ++k) {
      const double noise = 0.02 * static_cast<double>((i * 7 + static_cast<int>(k) * 13) % 11 - 5) / 5;
      shares[k] = (k % 2 == 0 ? 0.49 : 0.91) + noise;
    }
    const std::size_t changes = tree.observe(at_share(graph, shares)).size();
    if (i >= 200) late += changes;
  }
  EXPECT_EQ(late, 0U);
}

// What fits into a cache may come and go at the cache's rate.
TEST(Subgraph, SmallOperandsAreJudgedByTheCache) {
  const Graph graph = waisted();
  Roofline roofline = kMachine;
  const double slow = node_costs(graph, roofline)[1].memory_ms;
  roofline.caches = {{.bytes = 1e4, .bytes_per_ms = 8e7}, {.bytes = 1e6, .bytes_per_ms = 4e7}};
  EXPECT_DOUBLE_EQ(node_costs(graph, roofline)[1].memory_ms, slow / 4);  // 128 KiB, of the second
}

// Slow, then fast, then slow: it splits, merges and splits again, each only after window and cooldown.
TEST(Subgraph, FollowsAScriptButNotAtOnce) {
  const Graph graph = waisted();
  SubgraphTree tree(graph, kMachine, {.initial_granularity = 2, .window = 3, .cooldown = 5});
  std::vector<int> splits;
  std::vector<int> merges;
  for (int i = 1; i <= 60; ++i) {
    const double share = i <= 20 ? 0.6 : i <= 40 ? 0.95 : 0.3;
    for (const std::string& line : tree.observe(at_share(graph, std::vector<double>(graph.nodes.size(), share)))) {
      (line.starts_with("split") ? splits : merges).push_back(i);
    }
  }
  ASSERT_FALSE(merges.empty());
  EXPECT_EQ(merges.front(), 23);  // a window of fast samples, after 20 of which none was fast
  ASSERT_FALSE(splits.empty());
  EXPECT_EQ(splits.front(), 43);
  for (std::size_t i = 1; i < splits.size(); ++i) {
    EXPECT_TRUE(splits[i] == splits[i - 1] || splits[i] - splits[i - 1] >= 5);  // halves rest first
  }
}

TEST(Subgraph, RefusesSettingsThatMakeNoSense) {
  const Graph graph = waisted();
  const auto make = [&](SubgraphOptions o) { return SubgraphTree(graph, kMachine, o).leaves().size(); };
  EXPECT_THROW(make({.performance_threshold = 0}), UserError);
  EXPECT_THROW(make({.performance_threshold = 1.5}), UserError);
  EXPECT_THROW(make({.merging_threshold = -1}), UserError);
  EXPECT_THROW(make({.performance_threshold = 0.8, .merging_threshold = 0.7}), UserError);
  EXPECT_THROW(make({.initial_granularity = 0}), UserError);
  EXPECT_THROW(make({.initial_granularity = 20}), UserError);
  EXPECT_THROW(make({.window = 0}), UserError);
  EXPECT_THROW(make({.cooldown = -1}), UserError);
}

}  // namespace
}  // namespace neap
