// Properties of every plan, over random graphs and random decisions.
#include <gtest/gtest.h>

#include <cstring>

#include "core/random.h"
#include "graph/op.h"
#include "ops/evaluate.h"
#include "plan/plan.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "plan/views.h"
#include "runtime/executor.h"
#include "tests/random_graph.h"
#include "train/optimizer.h"
#include "train/state.h"

namespace neap {
namespace {

Decisions random_decisions(const Graph& graph, std::uint64_t seed) {
  RandomStream random(seed);
  Decisions out;
  for (const Tensor& t : graph.tensors) {
    const bool may_go = t.producer && !graph.at(t.producer).op->side_effects();
    out.residency.push_back(may_go && random.below(2) == 0 ? Residency::kRecompute : Residency::kKeep);
  }
  return out;
}

std::map<std::string, HostTensor> leaves_of(const Graph& graph) {
  std::map<std::string, HostTensor> out;
  for (const Tensor& t : graph.tensors) {
    if (t.producer) continue;
    HostTensor value(t.type);
    if (t.name == kHyperInput) {
      const Hyper hyper = hyper_at(1, 0.1, {.name = "sgd"});
      std::memcpy(value.data.data(), hyper.data(), sizeof hyper);
    } else if (is_state(t.role)) {
      value.data = initial_value(t, 3);
    } else if (t.type.dtype == DType::kF32) {
      RandomStream random(5);
      for (std::int64_t i = 0; i < t.type.elements(); ++i) value.floats()[i] = static_cast<float>(random.normal());
    }
    out[t.name] = std::move(value);
  }
  return out;
}

class PlanProperty : public testing::TestWithParam<int> {};

TEST_P(PlanProperty, EveryPlanIsValidAndGivesTheBitsOfPlainMemory) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto device = make_cpu_device(2);
  const Program program = prepare(random_training_graph(seed), *device);
  const Graph& graph = program.graph;
  const auto leaves = leaves_of(graph);
  const auto want = evaluate(graph, leaves);
  std::vector<Decisions> all = {Decisions{}, store_all(graph)};
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(random_decisions(graph, 100 * seed + i));
  for (const Decisions& decisions : all) {
    const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
    const auto error = validate(plan, graph, program.costs);
    ASSERT_FALSE(error) << *error;
    const auto arena = device->make_arena(plan.peak_bytes, true);
    std::memset(arena->base(), 0xEE, static_cast<std::size_t>(plan.peak_bytes));
    Executor executor(program, plan, *device, *arena);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (!graph.tensors[i].producer) executor.write({i}, leaves.at(graph.tensors[i].name).data.data());
    }
    executor.run();
    EXPECT_EQ(executor.peak_bytes(), simulate(plan, program.costs).peak_bytes);
    EXPECT_EQ(executor.peak_bytes(), plan.peak_bytes);
    EXPECT_LE(plan.lower_bound_bytes, plan.peak_bytes);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].role != Role::kParameter) continue;
      const auto& bytes = want[i].data;
      EXPECT_EQ(std::memcmp(executor.at({i}), bytes.data(), bytes.size()), 0) << graph.tensors[i].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanProperty, testing::Range(0, 60));

// Each damage that a planner could do is seen by validate().
TEST(Validate, SeesEveryKindOfDamage) {
  const auto device = make_cpu_device(2);
  const Program program = prepare(random_training_graph(11), *device);
  const Graph& graph = program.graph;
  const Plan sound = std::get<Plan>(make_plan(graph, program.costs, store_all(graph)));
  ASSERT_FALSE(validate(sound, graph, program.costs));
  const auto broken = [&](auto damage) {
    Plan plan = sound;
    damage(plan);
    return validate(plan, graph, program.costs).has_value();
  };
  EXPECT_TRUE(broken([](Plan& p) { p.instructions.pop_back(); })) << "an instruction is missing";
  EXPECT_TRUE(broken([](Plan& p) { std::swap(p.instructions[0], p.instructions[p.instructions.size() / 2]); }))
      << "order";
  EXPECT_TRUE(broken([](Plan& p) { p.peak_bytes -= 64; })) << "a block above the peak";
  EXPECT_TRUE(broken([](Plan& p) { p.homes.pop_back(); })) << "a result without a home";
  int unseen = 0;
  int tried = 0;
  for (std::size_t b = 0; b < sound.blocks.size(); ++b) {
    if (sound.blocks[b].offset == 0) continue;
    ++tried;
    unseen += broken([&](Plan& p) { p.blocks[b].offset = 0; }) ? 0 : 1;  // on top of the state
    unseen += broken([&](Plan& p) { p.blocks[b].offset += 1; }) ? 0 : 1;
    if (sound.blocks[b].upper - sound.blocks[b].lower > 1 && sound.blocks[b].kind != BlockKind::kInput) {
      unseen += broken([&](Plan& p) { p.blocks[b].upper -= 1; }) ? 0 : 1;
    }
  }
  EXPECT_GT(tried, 10);
  EXPECT_EQ(unseen, 0);
}

}  // namespace
}  // namespace neap
