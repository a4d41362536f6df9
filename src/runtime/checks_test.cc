#include "runtime/checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "core/bytes.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "plan/validate.h"
#include "runtime/executor.h"

namespace neap {
namespace {

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kWidth = 64;

Graph small_network() {
  Builder g(Mode::kTraining);
  Value x = g.input("x", DType::kF32, {kRows, kWidth});
  for (int i = 0; i < 4; ++i) {
    const Value w = g.parameter("w" + std::to_string(i), {kWidth, kWidth}, Init::normal(0.1));
    x = g("gelu", {g("linear", {x, w})});
  }
  const Value loss = g("reduce_mean", {g("mul", {x, x})}, {{"keepdims", std::int64_t{0}}}, "loss");
  g.output("loss", loss);
  append_updates(g, differentiate(g, loss, g.graph().with_role(Role::kParameter)), {.name = "sgd", .lr = 0.1});
  return g.take();
}

// A program and what it takes to run plans of it.
struct Bench {
  std::unique_ptr<Device> device = make_cpu_device(1);
  Program program = prepare(small_network(), *device);
  Plan sound = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));

  // The loss under this plan. `kinds` none: as in a build without checks.
  float run(const Plan& plan, std::optional<Checks::Kinds> kinds) {
    const auto arena = device->make_arena(plan.peak_bytes, false);
    Executor executor(program, plan, *device, *arena);
    for (std::uint32_t i = 0; i < program.graph.tensors.size(); ++i) {
      const Tensor& t = program.graph.tensors[i];
      if (t.producer) continue;
      std::vector<float> values(static_cast<std::size_t>(t.type.bytes()) / sizeof(float) + 1);
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = 0.01F * static_cast<float>((k * 7 + i) % 13);
      executor.write({i}, values.data());
    }
    if (kinds) {
      Checks checks(plan, program.graph, program.costs, arena->base(), *kinds);
      executor.run_with(checks);
    } else {
      struct {
        void before(std::size_t) {}
        void after(std::size_t) {}
      } nothing;
      executor.run_with(nothing);
    }
    float loss = 0;
    executor.read(*program.graph.output("loss"), &loss);
    return loss;
  }

  // A saved block that is read late: its number.
  std::uint32_t long_lived() const {
    std::uint32_t best = 0;
    Tick longest = 0;
    for (std::uint32_t b = 0; b < sound.blocks.size(); ++b) {
      const Block& block = sound.blocks[b];
      if (block.kind != BlockKind::kSaved || block.upper - block.lower <= longest) continue;
      longest = block.upper - block.lower;
      best = b;
    }
    return best;
  }
};

TEST(Checks, ASoundPlanPassesAndItsResultsStay) {
  Bench bench;
  ASSERT_FALSE(validate(bench.sound, bench.program.graph, bench.program.costs));
  const float plain = bench.run(bench.sound, std::nullopt);
  EXPECT_TRUE(std::isfinite(plain));
  EXPECT_EQ(bench.run(bench.sound, Checks::Kinds{}), plain);
}

// A block that is used before its owner is done with it.
TEST(Checks, ReuseThatComesTooEarlyIsCaught) {
  Bench bench;
  Plan damaged = bench.sound;
  const std::uint32_t victim = bench.long_lived();
  const Block& saved = damaged.blocks[victim];
  for (std::uint32_t b = 0; b < damaged.blocks.size(); ++b) {
    Block& other = damaged.blocks[b];
    const bool comes_between = other.lower > saved.lower && other.lower + 1 < saved.upper;
    if (b == victim || other.kind == BlockKind::kState || !comes_between || other.bytes > saved.bytes) continue;
    other.offset = saved.offset;
    break;
  }
  ASSERT_NE(damaged, bench.sound);
  EXPECT_TRUE(validate(damaged, bench.program.graph, bench.program.costs));
  EXPECT_THROW(bench.run(damaged, Checks::Kinds{}), InternalError);
  EXPECT_NO_THROW(bench.run(damaged, std::nullopt));
}

TEST(Checks, AnAccessAfterTheEndOfALifeIsCaught) {
  Bench bench;
  Plan damaged = bench.sound;
  Block& block = damaged.blocks[bench.long_lived()];
  block.upper = block.lower + 1;
  EXPECT_THROW(bench.run(damaged, Checks::Kinds{}), InternalError);
}

// Even where nobody looks at generations, what is read too late is no number.
TEST(Checks, PoisonShowsInTheResultsOfABadPlan) {
  Bench bench;
  Plan damaged = bench.sound;
  for (Block& block : damaged.blocks) {
    if (block.kind == BlockKind::kTransient || block.kind == BlockKind::kSaved) block.upper = block.lower + 1;
  }
  constexpr Checks::Kinds kPoisonOnly{.generations = false, .poison = true};
  EXPECT_TRUE(std::isfinite(bench.run(damaged, std::nullopt)));
  EXPECT_TRUE(std::isnan(bench.run(damaged, kPoisonOnly)));
  EXPECT_TRUE(std::isfinite(bench.run(bench.sound, kPoisonOnly)));
}

// A plan of two instructions by hand: the bytes of a spill stay as they are until its wait.
TEST(Checks, WhatIsOnItsWayIsNotPoisoned) {
  Graph graph;
  Builder g(Mode::kTraining);
  g.output("y", g("relu", {g.input("x", DType::kF32, {16})}));
  graph = g.take();
  const TensorId y = *graph.output("y");
  const NodeId relu = graph.at(y).producer;
  Plan plan{.blocks = {{.kind = BlockKind::kInput, .tensor = *graph.find("x"), .bytes = 64, .lower = 0, .upper = 1},
                       {.kind = BlockKind::kSaved, .tensor = y, .bytes = 64, .lower = 0, .upper = 4, .offset = 64}},
            .instructions = {{.node = relu, .inputs = {{.block = {0}}}, .outputs = {{.block = {1}}}},
                             {.action = Action::kSpillBegin, .node = relu, .inputs = {{.block = {1}}}, .slot = {0}},
                             {.node = relu, .inputs = {{}}, .outputs = {{}}},
                             {.action = Action::kSpillWait, .node = relu, .inputs = {{.block = {1}}}, .slot = {0}},
                             {.node = relu, .inputs = {{}}, .outputs = {{}}}},
            .slots = {64},
            .slot_tensors = {y}};
  alignas(64) std::array<std::byte, 128> memory{};
  const Costs costs;
  Checks checks(plan, graph, costs, memory.data());
  const auto is_poisoned = [&](std::size_t at) { return memory[at] == Checks::kPoison; };
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    checks.before(i);
    EXPECT_FALSE(is_poisoned(64)) << i;
    if (i == 3) break;
    checks.after(i);
    EXPECT_TRUE(is_poisoned(0)) << "the input is dead behind its reader";
    EXPECT_FALSE(is_poisoned(64)) << i;
  }
  checks.after(3);
  EXPECT_TRUE(is_poisoned(64));
  EXPECT_TRUE(is_poisoned(127));
}

}  // namespace
}  // namespace neap
