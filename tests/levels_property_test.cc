// Properties of plans that store tensors in fewer bits, over random graphs and random levels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "autodiff/optimizer.h"
#include "core/random.h"
#include "graph/op.h"
#include "ops/evaluate.h"
#include "plan/encode.h"
#include "plan/rounding.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "pool/spill_store.h"
#include "precision/codec.h"
#include "runtime/executor.h"
#include "tests/random_graph.h"
#include "train/state.h"

namespace neap {
namespace {

using precision::Level;

constexpr Level kSome[] = {Level::kFp16, Level::kBf16, Level::kInt8, Level::kInt4};

Decisions random_levels(const Graph& graph, std::uint64_t seed) {
  RandomStream random(seed);
  const std::vector<Window> views = find_views(graph);
  const auto kind = random.below(3);
  Decisions out;
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    const bool may_go = t.producer && !graph.at(t.producer).op->side_effects();
    const auto draw = random.below(5);
    const bool leaves = kind != 0 && draw == 0 && may_go && can_spill(graph, views, {i});
    const bool is_made_again = kind == 2 && draw == 1 && may_go;
    out.residency.push_back(leaves ? Residency::kSpill : is_made_again ? Residency::kRecompute : Residency::kKeep);
    const bool has_level = can_encode(graph, views, {i}) && random.below(4) != 0;
    out.levels.of.push_back(has_level ? kSome[random.below(4)] : Level::kFp32);
  }
  out.flight_bytes = random.below(2) == 0 ? 0 : 1 << 20;
  out.link = {.write_bytes_per_ms = 1e3, .read_bytes_per_ms = 1e3};
  out.levels.flow = random.below(3) == 0;
  out.levels.may_feed_recomputation = random.below(2) == 0;
  return out;
}

struct Result {
  std::vector<std::vector<std::byte>> parameters;
  std::int64_t peak = 0;
};

Result run(const Program& program, const Plan& plan, Device& device, const Leaves& leaves, std::uint64_t step) {
  const Graph& graph = program.graph;
  const auto arena = device.make_arena(plan.peak_bytes, true);
  std::memset(arena->base(), 0xEE, static_cast<std::size_t>(plan.peak_bytes));
  const auto store = make_spill_store(plan.slots, {.host_ram_bytes = 1 << 20});
  Executor executor(program, plan, device, *arena, store.get());
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].producer) executor.write({i}, leaves.at(graph.tensors[i].name).data.data());
  }
  executor.set_step(1, step);
  executor.run();
  Result out{.peak = executor.peak_bytes()};
  for (const TensorId id : graph.with_role(Role::kParameter)) {
    const std::byte* at = executor.at(id);
    out.parameters.emplace_back(at, at + graph.at(id).type.bytes());
  }
  return out;
}

bool is_lossless(Level level, const HostTensor& value) {
  const std::int64_t n = value.type.elements();
  std::vector<std::byte> codes(static_cast<std::size_t>(precision::encoded_bytes(level, n)));
  std::vector<float> back(static_cast<std::size_t>(n));
  const auto* x = reinterpret_cast<const float*>(value.data.data());
  if (precision::must_stay_exact(precision::encode(level, x, n, {}, codes.data()))) return false;
  precision::decode(level, codes.data(), n, back.data());
  return std::memcmp(back.data(), x, static_cast<std::size_t>(n) * 4) == 0;
}

std::int64_t count(const Plan& plan, Action action) {
  return std::count_if(plan.instructions.begin(), plan.instructions.end(),
                       [&](const Instruction& in) { return in.action == action; });
}

class LevelsProperty : public testing::TestWithParam<int> {};

TEST_P(LevelsProperty, EveryPlanIsValidAndRunsToTheSameBitsWithTheSameSeed) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(seed), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  program.costs.codec.encode.fill(2);
  program.costs.codec.decode.fill(1);
  const Graph& graph = program.graph;
  const Leaves leaves = leaves_of(graph, false);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Decisions decisions = random_levels(graph, 100 * seed + i);
    const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
    const auto error = validate(plan, graph, program.costs);
    ASSERT_FALSE(error) << *error;
    const Result first = run(program, plan, *device, leaves, 7);
    EXPECT_EQ(first.peak, plan.peak_bytes);
    EXPECT_EQ(simulate(plan, program.costs).peak_bytes, plan.peak_bytes);
    EXPECT_EQ(run(program, plan, *device, leaves, 7).parameters, first.parameters);
    if (!plan.slots.empty()) continue;
    const Footprint sketch = footprint(graph, find_views(graph), program.costs, decisions);
    EXPECT_EQ(sketch.bytes, plan.lower_bound_bytes);
    EXPECT_DOUBLE_EQ(sketch.ms, simulate(plan, program.costs).ms);
  }
}

// Plans that do other things and round alike: the same bits.
TEST_P(LevelsProperty, PlansThatRoundAlikeGiveTheSameBits) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(seed), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  const Graph& graph = program.graph;
  const Leaves leaves = leaves_of(graph, false);
  const StoredLevels levels = random_levels(graph, 100 * seed).levels;
  std::map<std::uint64_t, Result> results;
  for (std::uint64_t i = 0; i < 8; ++i) {
    Decisions decisions = random_levels(graph, 100 * seed + i);
    decisions.levels = i % 2 == 0 ? levels : StoredLevels{};
    decisions.levels.is_settled = i % 4 == 0;
    const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
    const std::uint64_t key = rounding_key(plan, graph);
    if (i % 2 == 1) {
      EXPECT_EQ(key, 0U);
    }
    const Result result = run(program, plan, *device, leaves, 7);
    const auto known = results.emplace(key, result).first;
    EXPECT_EQ(result.parameters, known->second.parameters) << i;
  }
}

// Where a level holds a tensor's values exactly, the weights are those of plain memory to the bit.
TEST_P(LevelsProperty, LosslessLevelsGiveTheBitsOfPlainMemory) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto device = make_cpu_device(2);
  const Program program = prepare(random_training_graph(seed), *device);
  const Graph& graph = program.graph;
  const Leaves leaves = leaves_of(graph, true);
  const auto want = evaluate(graph, leaves);
  const std::vector<TensorId> parameters = graph.with_role(Role::kParameter);
  for (std::uint64_t i = 0; i < 4; ++i) {
    Decisions decisions = random_levels(graph, 100 * seed + i);
    for (std::uint32_t t = 0; t < graph.tensors.size(); ++t) {
      Level& level = decisions.levels.of[t];
      if (level != Level::kFp32 && !is_lossless(level, want[t])) level = Level::kFp32;
    }
    const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
    ASSERT_FALSE(validate(plan, graph, program.costs));
    const Result got = run(program, plan, *device, leaves, 1);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const auto& bytes = want[parameters[p].index].data;
      EXPECT_EQ(std::memcmp(got.parameters[p].data(), bytes.data(), bytes.size()), 0) << graph.at(parameters[p]).name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LevelsProperty, testing::Range(0, 30));

// A graph and a plan of it in which something is encoded and something encoded is spilled.
struct Sample {
  Program program;
  Plan plan;
};

Sample sample(Device& device) {
  for (std::uint64_t seed = 0;; ++seed) {
    Sample out{.program = prepare(random_training_graph(seed), device), .plan = {}};
    const Graph& graph = out.program.graph;
    const std::vector<Window> views = find_views(graph);
    Decisions decisions = store_all(graph);
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const bool can = can_encode(graph, views, {i});
      decisions.levels.of.push_back(can ? Level::kInt8 : Level::kFp32);
      if (can && decisions.residency[i] == Residency::kKeep && i % 2 == 0) decisions.residency[i] = Residency::kSpill;
    }
    out.plan = std::get<Plan>(make_plan(graph, out.program.costs, decisions));
    if (out.plan.slots.size() > 1 && count(out.plan, Action::kDecode) > 3) return out;
  }
}

TEST(ValidateLevels, SeesDamagedCodecs) {
  const auto device = make_cpu_device(1);
  const Sample s = sample(*device);
  const auto fault = [&](const Plan& plan) { return validate(plan, s.program.graph, s.program.costs).has_value(); };
  ASSERT_FALSE(fault(s.plan));
  int tried = 0;
  int missed = 0;
  for (std::size_t i = 0; i < s.plan.instructions.size(); ++i) {
    if (!is_codec(s.plan.instructions[i].action)) continue;
    ++tried;
    const auto damaged = [&](auto damage) {
      Plan plan = s.plan;
      damage(plan.instructions[i]);
      return fault(plan);
    };
    EXPECT_TRUE(damaged([](Instruction& in) { in.level = Level::kInt4; })) << "another level, " << i;
    EXPECT_TRUE(damaged([](Instruction& in) { in.level = Level::kFp32; })) << "no level, " << i;
    EXPECT_TRUE(damaged([](Instruction& in) { in.elements -= 1; })) << "a part, " << i;
    EXPECT_TRUE(damaged([](Instruction& in) { std::swap(in.inputs, in.outputs); })) << "the wrong way, " << i;
    EXPECT_TRUE(damaged([](Instruction& in) {
      in.action = in.action == Action::kEncode ? Action::kDecode : Action::kEncode;
    })) << "the other way, "
        << i;
    Plan missing = s.plan;
    missing.instructions.erase(missing.instructions.begin() + static_cast<std::ptrdiff_t>(i));
    for (Block& b : missing.blocks) {
      b.lower -= b.lower > i ? 1 : 0;
      b.upper -= b.upper > i ? 1 : 0;
    }
    missed += fault(missing) ? 1 : 0;
  }
  EXPECT_GT(tried, 6);
  EXPECT_GE(missed, tried - 1);  // the floats of one still lie, by chance, where they would be decoded to
  Plan whole = s.plan;
  whole.slots[0] *= 4;
  EXPECT_TRUE(fault(whole)) << "the slot of a spill has other bytes";
}

// int8-then-spill moves a quarter of the bytes, and 8 more a group.
TEST(Levels, WhatIsSpilledIsTheEncodedForm) {
  const auto device = make_cpu_device(1);
  const Sample s = sample(*device);
  for (std::size_t i = 0; i < s.plan.slots.size(); ++i) {
    const std::int64_t n = s.program.graph.at(s.plan.slot_tensors[i]).type.elements();
    EXPECT_EQ(s.plan.slots[i], precision::encoded_bytes(Level::kInt8, n));
    EXPECT_LT(s.plan.slots[i], n * 4 / 3);
  }
  const std::string text = print(s.plan, s.program.graph);
  EXPECT_NE(text.find(" as int8"), std::string::npos);
}

// Without the switch nothing that is made again, besides the lossless forms, comes from rounded tensors.
TEST(Levels, WhatFeedsRecomputationStaysExactUnlessAllowed) {
  const auto device = make_cpu_device(1);
  int more = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = prepare(random_training_graph(seed), *device);
    const Graph& graph = program.graph;
    const std::vector<Window> views = find_views(graph);
    Decisions decisions;
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      const bool may_go = t.producer && !graph.at(t.producer).op->side_effects();
      decisions.residency.push_back(may_go && i % 3 == 0 ? Residency::kRecompute : Residency::kKeep);
      decisions.levels.of.push_back(can_encode(graph, views, {i}) ? Level::kInt8 : Level::kFp32);
    }
    const Plan strict = std::get<Plan>(make_plan(graph, program.costs, decisions));
    decisions.levels.may_feed_recomputation = true;
    const Plan loose = std::get<Plan>(make_plan(graph, program.costs, decisions));
    EXPECT_FALSE(validate(strict, graph, program.costs));
    EXPECT_FALSE(validate(loose, graph, program.costs));
    EXPECT_LE(count(strict, Action::kEncode), count(loose, Action::kEncode));
    more += count(strict, Action::kEncode) < count(loose, Action::kEncode) ? 1 : 0;
  }
  EXPECT_GT(more, 0);
}

// NaN is told before anything that stays has changed.
TEST(Levels, ValuesThatALevelCannotHoldEndTheStepBeforeItChangesAnything) {
  const auto device = make_cpu_device(1);
  const Sample s = sample(*device);
  const Program& program = s.program;
  const Graph& graph = program.graph;
  const std::vector<Window> views = find_views(graph);
  Decisions decisions = store_all(graph);
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    decisions.levels.of.push_back(can_encode(graph, views, {i}) ? Level::kInt8 : Level::kFp32);
  }
  const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
  ASSERT_GT(count(plan, Action::kEncode), 0);
  const auto arena = device->make_arena(plan.peak_bytes, true);
  Executor executor(program, plan, *device, *arena);
  Leaves leaves = leaves_of(graph, false);
  leaves.at("x").floats()[5] = std::nanf("");
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].producer) executor.write({i}, leaves.at(graph.tensors[i].name).data.data());
  }
  executor.set_step(1, 1);
  try {
    executor.run();
    ADD_FAILURE() << "nothing was told";
  } catch (const CannotEncode& trouble) {
    ASSERT_FALSE(trouble.tensors.empty());
    EXPECT_TRUE(precision::must_stay_exact(trouble.tensors[0].flags));
  }
  EXPECT_TRUE(executor.can_run_again());
}

}  // namespace
}  // namespace neap
