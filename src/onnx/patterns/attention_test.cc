#include "graph/op.h"
#include "onnx/model_testing.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx::testing {
namespace {

enum class Scale { kNone, kDivided, kMultiplied, kOnQuery, kOnBoth, kOnQueryAndScores };

struct Attention {
  Scale scale = Scale::kDivided;
  std::string added;   // a mask that is added
  std::string chosen;  // one for Where
  std::string never = "never";
  bool has_dropout = false;
  std::int64_t axis = -1;
  std::string outputs = "y";
};

// Heads 2, depth 4, from [batch, time, 8] as exporters write it.
Maker attention(const Attention& a) {
  Maker m;
  m.input("x", "batch time 8").input("mask", "batch 1 1 3").input("seen", "batch 1 3 3", pb::TensorProto::BOOL);
  m.input("seen_keys", "batch 1 1 3", pb::TensorProto::BOOL).weight("bias", {1, 2, 3, 3}).weight("slope", {2, 1, 1});
  m.ints("split", {2, 3, 2, 4}).ints("join", {2, 3, 8}).number("root", 2).number("half", 0.5F).number("quarter", 0.25F);
  m.number("never", -3e38F)
      .number("low", -5)
      .number("p", 0.25F)
      .truth("trains", true)
      .number("one", 1)
      .number("some", 0.70710678F);
  for (const std::string n : {"q", "k", "v"}) {
    m.weight("w" + n, {8, 8}).node("MatMul", "x w" + n, n + "0").node("Reshape", n + "0 split", n + "1");
    m.node("Transpose", n + "1", n, {{"perm", n == "k" ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3}}});
  }
  const bool scales_query =
      a.scale == Scale::kOnQuery || a.scale == Scale::kOnBoth || a.scale == Scale::kOnQueryAndScores;
  m.node("Mul", scales_query ? "q some" : "q one", "qs")
      .node("Mul", a.scale == Scale::kOnBoth ? "some k" : "one k", "ks");
  m.node("MatMul", "qs ks", "s0");
  if (a.scale == Scale::kDivided) m.node("Div", "s0 root", "s");
  if (a.scale == Scale::kMultiplied || a.scale == Scale::kOnQueryAndScores) m.node("Mul", "half s0", "s");
  if (a.scale == Scale::kNone || a.scale == Scale::kOnQuery || a.scale == Scale::kOnBoth) m.node("Identity", "s0", "s");
  m.node(a.chosen.empty() ? "Identity" : "Where", a.chosen.empty() ? "s" : a.chosen + " s " + a.never, "c");
  m.node(a.added.empty() ? "Identity" : "Add", a.added.empty() ? "c" : "c " + a.added, "masked");
  m.node("Softmax", "masked", "probs", {{"axis", a.axis}});
  m.node(a.has_dropout ? "Dropout" : "Identity", a.has_dropout ? "probs p trains" : "probs", "dropped");
  m.node("MatMul", "dropped v", "heads").node("Transpose", "heads", "t", {{"perm", Ints{0, 2, 1, 3}}});
  m.node("Reshape", "t join", "y").output(a.outputs);
  return m;
}

double scale_of(const Graph& g) {
  for (const Node& n : g.nodes) {
    if (n.op->name == "attention") return n.attrs.real("scale");
  }
  return 0;
}

void expect_found(const Attention& a, double scale) {
  Maker m = attention(a);
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  verify(found);
  EXPECT_EQ(count(found, "attention"), 1) << ops(found);
  EXPECT_EQ(count(found, "softmax"), 0);
  EXPECT_EQ(count(found, "transpose"), 0) << ops(found);
  EXPECT_NEAR(scale_of(found), scale, 1e-6);
  expect_same_results(plain, found);
}

TEST(OnnxPatterns, AttentionWithItsScaleAnywhere) {
  expect_found({.scale = Scale::kNone}, 1);
  expect_found({.scale = Scale::kDivided}, 0.5);
  expect_found({.scale = Scale::kMultiplied}, 0.5);
  expect_found({.scale = Scale::kOnQuery}, 0.70710678);
  expect_found({.scale = Scale::kOnBoth}, 0.5);
  expect_found({.scale = Scale::kOnQueryAndScores}, 0.70710678 * 0.5);
}

TEST(OnnxPatterns, AttentionWithoutAMaskIsFourSmallOps) {
  Maker m = attention({});
  EXPECT_EQ(ops(find_patterns(import_plain(m))), "linear reshape linear reshape linear reshape attention reshape");
}

TEST(OnnxPatterns, AttentionWithMasks) {
  expect_found({.added = "mask"}, 0.5);
  expect_found({.chosen = "seen_keys"}, 0.5);
  expect_found({.added = "mask", .chosen = "seen_keys"}, 0.5);
  expect_found({.scale = Scale::kOnBoth, .added = "mask"}, 0.5);
}

// Keys that no query may see differ between the two: -3e38 for all is the mean of the values, -infinity is zero. Here
// every query sees one.
TEST(OnnxPatterns, AttentionWithAMaskForEachQuery) {
  Maker m = attention({.chosen = "seen"});
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  ASSERT_EQ(count(found, "attention"), 1);
  HostTensor seen({DType::kBool, {2, 1, 3, 3}});
  for (int i = 0; i < 18; ++i) seen.data[static_cast<std::size_t>(i)] = std::byte(i % 3 <= i / 3 % 3 ? 1 : 0);
  const HostTensor a = results(plain, {{"seen", seen}})[0];
  const HostTensor b = results(found, {{"seen", seen}})[0];
  for (int i = 0; i < 48; ++i) EXPECT_NEAR(a.floats()[i], b.floats()[i], 1e-5);
}

TEST(OnnxPatterns, AttentionTakesItsDropout) {
  Maker m = attention({.has_dropout = true});
  const Graph found = find_patterns(import_plain(m));
  ASSERT_EQ(count(found, "attention"), 1);
  EXPECT_EQ(count(found, "dropout"), 0);
  const auto node =
      std::find_if(found.nodes.begin(), found.nodes.end(), [](const Node& n) { return n.op->name == "attention"; });
  EXPECT_NEAR(node->attrs.real("dropout_p"), 0.25, 1e-9);
  const Graph evaluated = find_patterns(import_plain(m, {}, Mode::kEvaluation));
  EXPECT_FALSE(evaluated.find(kRandomInput).has_value());
}

TEST(OnnxPatterns, NearAttentionIsKept) {
  const auto kept = [](const Attention& a) {
    Maker m = attention(a);
    const Graph plain = import_plain(m);
    const Graph found = find_patterns(plain);
    EXPECT_EQ(count(found, "attention"), 0);
    EXPECT_EQ(count(found, "softmax"), 1);
    expect_same_results(plain, found);
  };
  kept({.added = "bias"});                        // trained: attention has no gradient for it
  kept({.axis = 2});                              // over the queries
  kept({.chosen = "seen_keys", .never = "low"});  // those are seen, a little
}

// Someone looks at the probabilities: they are there, besides.
TEST(OnnxPatterns, ProbabilitiesThatAreAResultStay) {
  Maker m = attention({.outputs = "y probs"});
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(count(found, "softmax"), 1);
  expect_same_results(plain, found);
}

}  // namespace
}  // namespace neap::onnx::testing
