#include <numbers>

#include "onnx/model_testing.h"
#include "onnx/patterns/patterns.h"

namespace neap::onnx::testing {
namespace {

Maker with_numbers() {
  Maker m;
  m.input("x", "batch 8").number("half", 0.5F).number("one", 1).number("three", 3).number("cubic", 0.044715F);
  m.number("root2", std::numbers::sqrt2_v<float>).number("inverse2", 1 / std::numbers::sqrt2_v<float>);
  m.number("outer", 0.7978845608F).number("two", 2);
  return m;
}

// The pattern becomes `after` alone, and the numbers stay.
void expect_found(Maker& m, const std::string& after) {
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  verify(found);
  EXPECT_EQ(ops(found), after) << "from " << ops(plain);
  expect_same_results(plain, found);
}

void expect_kept(Maker& m) {
  const Graph plain = import_plain(m);
  EXPECT_EQ(ops(find_patterns(plain)), ops(plain));
}

enum class Order { kHalfX, kHalfOfProduct, kXTimesHalf };

Maker& finish(Maker& m, Order order, const std::string& rest) {
  if (order == Order::kHalfX) m.node("Mul", "x half", "h").node("Mul", "h " + rest, "y");
  if (order == Order::kHalfOfProduct) m.node("Mul", "x " + rest, "p").node("Mul", "p half", "y");
  if (order == Order::kXTimesHalf) m.node("Mul", "half " + rest, "p").node("Mul", "p x", "y");
  return m.output("y");
}

Maker gelu_of_erf(Order order, bool divides) {
  Maker m = with_numbers();
  m.node(divides ? "Div" : "Mul", divides ? "x root2" : "inverse2 x", "s")
      .node("Erf", "s", "e")
      .node("Add", "e one", "rest");
  finish(m, order, "rest");
  return m;
}

TEST(OnnxPatterns, GeluOfErfInAllItsSpellings) {
  for (const Order order : {Order::kHalfX, Order::kHalfOfProduct, Order::kXTimesHalf}) {
    for (const bool divides : {true, false}) {
      Maker m = gelu_of_erf(order, divides);
      EXPECT_EQ(count(import_plain(m), "erf"), 1);
      expect_found(m, "gelu");
    }
  }
}

enum class Cube { kPow, kProduct };

Maker gelu_of_tanh(Order order, Cube cube) {
  Maker m = with_numbers();
  if (cube == Cube::kPow) m.node("Pow", "x three", "c");
  if (cube == Cube::kProduct) m.node("Mul", "x x", "sq").node("Mul", "sq x", "c");
  m.node("Mul", "c cubic", "k").node("Add", "x k", "sum").node("Mul", "outer sum", "in").node("Tanh", "in", "t");
  finish(m.node("Add", "t one", "rest"), order, "rest");
  return m;
}

TEST(OnnxPatterns, GeluOfTanhInAllItsSpellings) {
  for (const Order order : {Order::kHalfX, Order::kHalfOfProduct, Order::kXTimesHalf}) {
    for (const Cube cube : {Cube::kPow, Cube::kProduct}) {
      Maker m = gelu_of_tanh(order, cube);
      expect_found(m, "gelu");
      EXPECT_EQ(find_patterns(import_plain(m)).nodes[0].attrs.text("approximate", ""), "tanh");
    }
  }
}

TEST(OnnxPatterns, Silu) {
  for (const char* order : {"x s", "s x"}) {
    Maker m = with_numbers();
    m.node("Sigmoid", "x", "s").node("Mul", order, "y").output("y");
    expect_found(m, "silu");
  }
}

TEST(OnnxPatterns, NearGeluIsKept) {
  Maker other_scale = with_numbers();
  other_scale.node("Div", "x two", "s").node("Erf", "s", "e").node("Add", "e one", "rest");
  finish(other_scale, Order::kHalfX, "rest");
  expect_kept(other_scale);

  Maker other_sum = with_numbers();
  other_sum.node("Div", "x root2", "s").node("Erf", "s", "e").node("Add", "e two", "rest");
  finish(other_sum, Order::kHalfX, "rest");
  expect_kept(other_sum);

  Maker other_x = with_numbers();
  other_x.node("Neg", "x", "n").node("Div", "n root2", "s").node("Erf", "s", "e").node("Add", "e one", "rest");
  finish(other_x, Order::kHalfX, "rest");
  expect_kept(other_x);

  Maker inverted = with_numbers();  // sqrt(2) / x
  inverted.node("Div", "root2 x", "s").node("Erf", "s", "e").node("Add", "e one", "rest");
  finish(inverted, Order::kHalfX, "rest");
  expect_kept(inverted);
}

TEST(OnnxPatterns, NearSiluIsKept) {
  Maker m = with_numbers();
  m.node("Sigmoid", "x", "s").node("Neg", "x", "n").node("Mul", "s n", "y").output("y");
  expect_kept(m);
}

TEST(OnnxPatterns, PartsThatOthersReadStay) {
  Maker m = with_numbers();
  m.node("Sigmoid", "x", "s").node("Mul", "x s", "y").output("y s");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(ops(found), "sigmoid silu");
  expect_same_results(plain, found);
}

// A factor that is a tensor of equal numbers widens the result; what takes its place must too.
TEST(OnnxPatterns, NumbersThatBroadcastAreKept) {
  Maker m = with_numbers();
  m.ints("to", {3, 1, 1}).node("Expand", "half to", "halves");
  m.node("Div", "x root2", "s").node("Erf", "s", "e").node("Add", "e one", "rest").node("Mul", "x halves", "h");
  m.node("Mul", "h rest", "y").output("y");
  const Graph plain = import_plain(m);
  const Graph found = find_patterns(plain);
  EXPECT_EQ(found.at(*found.output("y")).type.text(), plain.at(*plain.output("y")).type.text());
  expect_same_results(plain, found);
}

}  // namespace
}  // namespace neap::onnx::testing
