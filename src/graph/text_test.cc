#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/random.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "neap/error.h"

namespace neap {
namespace {

const Dim kBatch = Dim::symbol("batch");

std::vector<std::byte> bytes(std::size_t n) {
  std::vector<std::byte> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 37);
  return out;
}

// Every role, init, phase and kind of attribute; names that need quotes; inputs that are not given; a constant that is
// not at the start.
Graph with_everything() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {kBatch, 12});
  const Value w = g.parameter("fc.weight", {12}, Init::uniform(0.25));
  g.parameter("fc.bias", {12}, Init::normal(1e-3));
  g.graph().at(g.parameter("embedding", {4, 12}, Init::constant(0))).trainable = false;
  g.buffer("bn.mean", {12}, -1.5);
  g.graph().add({.name = "m.fc", .type = {DType::kBF16, {12}}, .role = Role::kOptimizer});
  g.input("step", DType::kU64, {3});
  Value y;
  {
    const Builder::Scope scope(g, "blocks.0");
    y = g("softmax", {x}, {}, "attention");
    const Value mask = g.constant("mask", {DType::kBits, {13}}, bytes(2));
    g("reshape", {mask}, {{"shape", Shape{13, 1}}});
    g.add("split", {y}, {{"axis", std::int64_t{-1}}, {"sizes", Ints{2, 10}}}, "cut");
  }
  g.scalar(0.5);
  const Value input = g("softmax", {y, Value{}, w},
                        {{"empty", Ints{}},
                         {"exact", 0.1},
                         {"large", std::numeric_limits<std::int64_t>::min()},
                         {"lists of \"all\" kinds", std::vector<double>{1, -0.0, 1e300, 0.1}},
                         {"none", std::vector<double>{}},
                         {"nothing", Shape{}},
                         {"real", 2.0},
                         {"shape", Shape{-1, Dim(4) * kBatch, 7}},
                         {"text", std::string("a, \"b\" \\ } # \n\x01 ü")},
                         {"wild", -std::numeric_limits<double>::infinity()}},
                        "input");
  g.graph().nodes.back().phase = Phase::kBackward;
  g.graph().nodes.back().layer = "";
  g("softmax", {input}, {}, "new value of x");
  g.graph().nodes.back().phase = Phase::kUpdate;
  g.graph().nodes.back().layer = "a layer";
  g.graph().nodes.back().name = "update";
  g.output("loss", y);
  g.output("the input", input);
  return g.take();
}

void expect_same(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor& s = a.tensors[i];
    const Tensor& t = b.tensors[i];
    EXPECT_EQ(s.name, t.name);
    EXPECT_EQ(s.type, t.type);
    EXPECT_EQ(s.role, t.role);
    EXPECT_EQ(s.producer, t.producer);
    EXPECT_EQ(s.trainable, t.trainable);
    EXPECT_EQ(s.init, t.init);
    ASSERT_EQ(s.data == nullptr, t.data == nullptr);
    if (s.data) {
      EXPECT_EQ(*s.data, *t.data);
    }
  }
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Node& m = a.nodes[i];
    const Node& n = b.nodes[i];
    EXPECT_EQ(m.op, n.op);
    EXPECT_EQ(m.name, n.name);
    EXPECT_EQ(m.layer, n.layer);
    EXPECT_EQ(m.inputs, n.inputs);
    EXPECT_EQ(m.outputs, n.outputs);
    EXPECT_EQ(m.attrs, n.attrs);
    EXPECT_EQ(m.phase, n.phase);
  }
  EXPECT_EQ(a.outputs, b.outputs);
}

TEST(Text, Golden) {
  EXPECT_EQ(print(with_everything()), R"GRAPH(input x f32[batch,12]
param fc.weight f32[12] uniform(0.25)
param fc.bias f32[12] normal(0.001)
frozen embedding f32[4,12]
buffer bn.mean f32[12] constant(-1.5)
optimizer m.fc bf16[12]
input step u64[3]
blocks.0.attention f32[batch,12] = softmax(x) @blocks.0
constant blocks.0.mask bits[13] = 0025
blocks.0.reshape bits[13,1] = reshape(blocks.0.mask) {shape=shape[13,1]} @blocks.0
blocks.0.cut f32[batch,2], blocks.0.cut:1 f32[batch,10] = split(blocks.0.attention) {axis=-1, sizes=[2,10]} @blocks.0
constant "scalar(0.5)" f32[] = 0000003f
"input" f32[batch,12] = softmax(blocks.0.attention, none, fc.weight) {empty=[], exact=0.1, large=-9223372036854775808, "lists of \"all\" kinds"=reals[1.0,-0.0,1e+300,0.1], "none"=reals[], nothing=shape[], real=2.0, shape=shape[-1,4*batch,7], text="a, \"b\" \\ } # \x0a\x01 ü", wild=-inf} backward
"new value of x" f32[batch,12] = softmax("input") @"a layer" update as "update"
output loss = blocks.0.attention
output "the input" = "input"
)GRAPH");
}

TEST(Text, RoundTrip) {
  const Graph graph = with_everything();
  const Graph again = parse_graph(print(graph));
  expect_same(graph, again);
  EXPECT_EQ(print(again), print(graph));
  verify(again);
}

TEST(Text, EmptyGraph) {
  EXPECT_EQ(print(Graph()), "");
  EXPECT_TRUE(parse_graph("").tensors.empty());
  EXPECT_TRUE(parse_graph("\n  # only a comment\n\n").tensors.empty());
}

TEST(Text, ReadsWhatPeopleWrite) {
  const Graph g = parse_graph(
      "  input x f32[2,3]   # the data\r\n"
      "y  f32[3,2]=transpose( x ){perm=[1,0]}\n"
      "output y=y");
  EXPECT_EQ(print(g), "input x f32[2,3]\ny f32[3,2] = transpose(x) {perm=[1,0]}\noutput y = y\n");
}

TEST(Text, LargeConstantsAreKnownByTheirHash) {
  Builder g;
  g.constant("fits", {DType::kU8, {256}}, bytes(256));
  EXPECT_NO_THROW(parse_graph(print(g.graph())));
  g.constant("table", {DType::kU8, {257}}, bytes(257));
  const std::string text = print(g.graph());
  EXPECT_NE(text.find("constant table u8[257] = hash "), std::string::npos) << text;
  EXPECT_NE(text.find(" of 257 bytes"), std::string::npos) << text;
  try {
    parse_graph(text);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("line 2: constant 'table' is known by its hash only"), std::string::npos);
  }
}

struct Bad {
  const char* text;
  const char* why;
};

TEST(Text, SaysWhatIsWrongAndWhere) {
  const std::string head = "input x f32[2,3]\n";
  for (const Bad& bad : std::initializer_list<Bad>{
           {"input x f32[2]", "line 2: tensor 'x' is defined twice"},
           {"input f32[2]", "line 2: a type such as f32[2,3] is missing before '[2]'"},
           {"input y f33[2]", "line 2: a type such as f32[2,3] is missing before 'f33[2]'"},
           {"input y f32[2", "line 2: [...] is missing before '[2'"},
           {"input y f32[-2]", "line 2: f32[-2] has a negative axis"},
           {"input y f32[2,]", "line 2: a comma ends the shape"},
           {"input y f32[9223372036854775807,9]", "line 2: dimensions"},
           {"input y f32[9223372036854775807]", "line 2: f32[9223372036854775807] is too large"},
           {"input y f32[a b]", "line 2: 'a b' is not a dimension"},
           {"param w f32[2] normal(x)", "line 2: 'x' is not a number"},
           {"param w f32[2] normal(1", "line 2: ')' is missing before the line's end"},
           {"param w f32[2] cauchy(1)", "line 2: 'cauchy(1)' is left over"},
           {"constant c f32[2] = 00", "line 2: constant 'c' is f32[2], which 2 hex digits do not fill"},
           {"constant c f32[batch] = 00", "line 2: constant 'c' is f32[batch], which 2 hex digits do not fill"},
           {"constant c u8[1] = 0g", "line 2: '0g' is not a byte"},
           {"constant c u8[1] = 000", "line 2: constant 'c'"},
           {"y f32[2,3] = softmax(z)", "line 2: 'z' is read before it is defined"},
           {"y f32[2,3] = soft(x)", "line 2: there is no op 'soft'"},
           {"y f32[2,4] = softmax(x)", "line 2: 'y' is f32[2,4], softmax gives f32[2,3]"},
           {"y f32[2,3], z f32[2] = softmax(x)", "line 2: softmax has 1 outputs, not 2"},
           {"y f32[2,3] = softmax(x", "line 2: ',' is missing before the line's end"},
           {"y f32[2,3] softmax(x)", "line 2: ',' is missing before 'softmax(x)'"},
           {"= softmax(x)", "line 2: a node without outputs needs a name"},
           {"y f32[3,2] = transpose(x) {perm=[1,0]", "line 2: ',' is missing before the line's end"},
           {"y f32[3,2] = transpose(x) {perm=[1,,0]}", "line 2: '' is not a number"},
           {"y f32[3,2] = transpose(x) {perm=[1,0,]}", "line 2: a comma ends the list"},
           {"y f32[3,2] = transpose(x) {perm=99999999999999999999}", "line 2: '99999999999999999999' is not a number"},
           {"y f32[3,2] = transpose(x) {a=1, a=2}", "line 2: attribute 'a' is given twice"},
           {"y f32[3,2] = transpose(x) {a=\"b}", "line 2: a quote is open: '\"b}'"},
           {"y f32[3,2] = transpose(x) {a=\"\\q\"}", "line 2: a backslash in quotes"},
           {"y f32[3,2] = transpose(x) {perm=1}", "attribute 'perm' has the wrong type"},
           {"none f32[3,2] = transpose(x)", "line 2: 'none' has a meaning of its own"},
           {"output loss = y", "line 2: 'y' is read before it is defined"},
           {"output loss", "line 2: '=' is missing before the line's end"},
           {"(", "line 2: a name is missing before '('"},
       }) {
    try {
      parse_graph(head + bad.text);
      ADD_FAILURE() << "accepted: " << bad.text;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(bad.why), std::string::npos) << bad.text << "\n  " << e.what();
    }
  }
}

std::string mutated(std::string text, RandomStream& random) {
  static constexpr std::string_view kAlphabet = "\"\\[](){},=#@*-?.:x019ae \n\t\0\xff";
  for (std::uint64_t i = random.below(4) + 1; i-- > 0 && !text.empty();) {
    const auto at = static_cast<std::size_t>(random.below(text.size()));
    const auto other = static_cast<std::size_t>(random.below(text.size()));
    const auto length = static_cast<std::size_t>(random.below(30));
    switch (random.below(5)) {
      case 0: text[at] = kAlphabet[random.below(kAlphabet.size())]; break;
      case 1: text.insert(at, 1, kAlphabet[random.below(kAlphabet.size())]); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(other, length)); break;
      default: text[at] = static_cast<char>(random.below(256)); break;
    }
  }
  return text;
}

TEST(Text, AnyTextParsesOrIsRefused) {
  const std::string text = print(with_everything());
  RandomStream random(7);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string other = mutated(text, random);
    try {
      const Graph graph = parse_graph(other);
      ++parsed;
      const std::string once = print(graph);
      ASSERT_EQ(print(parse_graph(once)), once) << other;
    } catch (const UserError& e) {
      ASSERT_EQ(std::string(e.what()).substr(0, 5), "line ") << e.what();
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace neap
