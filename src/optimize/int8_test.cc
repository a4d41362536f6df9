#include "optimize/int8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/autodiff.h"
#include "neap/error.h"
#include "optimize/once.h"
#include "optimize/optimize_testing.h"

namespace neap {
namespace {

// A convolution, and a product in each of its spellings.
Graph forward() {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 6, 6, 8});
  const Value w = g.parameter("w", {16, 3, 3, 8}, Init::normal(0.1));
  Value y = g("conv", {x, w}, {{"pads", Ints{1, 1, 1, 1}}}, "conv");
  y = g("relu", {y});
  y = g("linear", {y, g.parameter("a", {32, 16}, Init::normal(0.1)), g.parameter("b", {32}, Init::normal(0.1))});
  y = g("matmul", {y, g.parameter("c", {32, 20}, Init::normal(0.1))});
  y = g("reshape", {y}, {{"shape", Shape{72, 20}}});
  y = g("gemm", {y, g.parameter("d", {12, 20}, Init::normal(0.1)), g.parameter("e", {12}, Init::normal(0.1))},
        {{"trans_b", std::int64_t{1}}});
  g.output("y", y);
  return g.take();
}

std::map<std::string, HostTensor> leaves(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  std::uint64_t key = 1;
  for (const Tensor& t : graph.tensors) {
    if (!t.producer) out[t.name] = random_values(t.type, key++);
  }
  return out;
}

double worst(const HostTensor& a, const HostTensor& b) {
  double most = 0, largest = 0;
  for (std::int64_t i = 0; i < a.type.elements(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.floats()[i]) - b.floats()[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b.floats()[i])));
  }
  return most / largest;
}

TEST(Int8Products, TakeThePlaceOfEveryProductWithAWeight) {
  const Graph before = forward();
  const Graph after = with_int8_products(before);
  EXPECT_EQ(count_of(after, "conv_int8"), 1);
  EXPECT_EQ(count_of(after, "linear_int8"), 3);
  EXPECT_EQ(count_of(after, "pack_int8"), 4);
  for (const char* op : {"conv", "linear", "matmul", "gemm"}) EXPECT_EQ(count_of(after, op), 0) << op;
  const auto was = evaluate(before, leaves(before));
  const auto is = evaluate(after, leaves(before));
  const double error = worst(is[after.output("y")->index], was[before.output("y")->index]);
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 0);
  EXPECT_EQ(print(parse_graph(print(after))), print(after));
}

TEST(Int8Products, PackWeightsOnce) {
  const Graph before = forward();
  const Graph whole = with_int8_products(before);
  const Halves halves = split_once(whole);
  EXPECT_EQ(count_of(halves.once, "pack_int8"), 4);
  EXPECT_EQ(count_of(halves.rest, "pack_int8"), 0);
  for (const char* weight : {"w", "a", "c", "d"}) EXPECT_FALSE(halves.rest.find(weight)) << weight;
  for (const char* weight : {"b", "e"}) EXPECT_TRUE(halves.rest.find(weight)) << weight;
  auto values = leaves(before);
  const auto once = evaluate(halves.once, values);
  for (const auto& [name, id] : halves.once.outputs) values[name] = once[id.index];
  const auto rest = evaluate(halves.rest, values);
  const auto all = evaluate(whole, values);
  EXPECT_EQ(rest[halves.rest.output("y")->index].data, all[whole.output("y")->index].data);
}

TEST(Int8Products, PackASharedWeightOnce) {
  Builder g;
  const Value w = g.parameter("w", {8, 8}, Init::normal(0.1));
  g.output("y", g("linear", {g("linear", {g.input("x", DType::kF32, {3, 8}), w}), w}));
  const Graph after = with_int8_products(g.take());
  EXPECT_EQ(count_of(after, "pack_int8"), 1);
  EXPECT_EQ(count_of(after, "linear_int8"), 2);
}

TEST(Int8Products, StayOutOfTrainingAndOfOtherPieces) {
  const Graph alone = forward();
  Builder g(alone);
  const Value loss = g("reduce_mean", {*alone.output("y")}, {{"keepdims", std::int64_t{0}}});
  differentiate(g, loss, {*alone.find("a")});
  const Graph training = g.take();
  EXPECT_EQ(print(with_int8_products(training)), print(training));
  EXPECT_EQ(print(with_int8_products(alone, Where(alone.nodes.size(), -1))), print(alone));
}

// Groups of channels, and weights that are no weights.
TEST(Int8Products, LeaveWhatTheyCannotDo) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {2, 6, 6, 8});
  const Value w = g.parameter("w", {8, 3, 3, 1}, Init::normal(0.1));
  g.output("y", g("conv", {x, w}, {{"groups", std::int64_t{8}}}));
  const Value a = g.input("a", DType::kF32, {4, 4});
  g.output("z", g("matmul", {a, a}));
  g.output("t", g("matmul", {a, g.parameter("b", {4, 4}, Init::normal(1))}, {{"trans_a", std::int64_t{1}}}));
  const Graph before = g.take();
  EXPECT_EQ(print(with_int8_products(before)), print(before));
}

}  // namespace
}  // namespace neap
