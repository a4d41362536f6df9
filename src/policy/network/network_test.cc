#include "policy/network/network.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "neap/layers.h"

namespace neap {
namespace {

const OptimizerOptions kOptimizer{.name = "adam", .weight_decay = 0};

// y = w x + b, to which x -> 3 x - 1 is taught.
Builder& line(Builder& g, std::int64_t rows) {
  const Value y = linear(g, "fc", g.input("x", DType::kF32, {rows, 1}), 1);
  g.output("y", y);
  return g;
}

Network teacher_less(std::uint64_t seed) {
  Builder g(Mode::kEvaluation);
  return Network(line(g, 1).take(), seed);
}

// Of batches of 8, in so many parts.
Network learner(std::uint64_t seed, std::int64_t parts = 1) {
  Builder g;
  line(g, 8 / parts);
  const Value d = g("sub", {g.graph().output("y").value(), g.input("target", DType::kF32, {8 / parts, 1})});
  g.output("loss", g("reduce_mean", {g("square", {d})}, {{"keepdims", std::int64_t{0}}}));
  return Network(with_training(g, kOptimizer, parts), seed);
}

void teach(Network& network, int steps, int parts = 1) {
  const int rows = 8 / parts;
  for (int step = 1; step <= steps; ++step) {
    for (int part = 0; part < parts; ++part) {
      for (int i = 0; i < rows; ++i) {  // each time: inputs last no longer than a step
        const float x = static_cast<float>(part * rows + i) / 4 - 1;
        network.floats("x")[static_cast<std::size_t>(i)] = x;
        network.floats("target")[static_cast<std::size_t>(i)] = 3 * x - 1;
      }
      network.train(step, 0.05, kOptimizer, {.is_first = part == 0, .is_last = part == parts - 1, .parts = parts});
    }
  }
}

TEST(Network, LearnsAndHandsItsWeightsOn) {
  Network network = learner(1);
  teach(network, 1);
  const float before = network.floats("loss")[0];
  teach(network, 400);
  EXPECT_LT(network.floats("loss")[0], 1e-3F * before);
  Network other = teacher_less(2);
  other.load(network.weights());
  other.floats("x")[0] = 2;
  other.run();
  EXPECT_NEAR(other.floats("y")[0], 5, 0.05);
}

TEST(Network, ABatchInPartsTeachesTheSame) {
  Network whole = learner(3);
  Network parts = learner(3, 4);
  teach(whole, 20);
  teach(parts, 20, 4);
  const NetworkWeights wanted = whole.weights();
  for (const auto& [name, values] : parts.weights()) {
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted.at(name)[i], 1e-4) << name;
  }
  EXPECT_NE(wanted, learner(3).weights());
}

TEST(Network, DependsOnItsSeedAlone) {
  Network a = learner(7);
  Network b = learner(7);
  Network c = learner(8);
  EXPECT_NE(a.weights(), c.weights());
  teach(a, 20);
  teach(b, 20);
  EXPECT_EQ(a.weights(), b.weights());
}

TEST(Network, ForgetsItsMoments) {
  Network a = learner(7);
  const NetworkWeights start = a.weights();
  teach(a, 5);
  const NetworkWeights first = a.weights();
  a.load(start);
  teach(a, 5);
  EXPECT_NE(a.weights(), first);
  a.load(start);
  a.forget_moments();
  teach(a, 5);
  EXPECT_EQ(a.weights(), first);
}

TEST(Network, LeavesTheThreadsOfOthersAlone) {
  omp_set_num_threads(2);
  Network network = learner(1);
  teach(network, 1);
  EXPECT_EQ(omp_get_max_threads(), 2);
  EXPECT_GT(network.arena_bytes(), 0);
  EXPECT_LT(network.arena_bytes(), 1 << 16);
}

}  // namespace
}  // namespace neap
