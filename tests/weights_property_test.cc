// Weights that wait outside of the arena: whatever the graph and the budget, the bits are those of plain memory.
#include <gtest/gtest.h>

#include <cstring>

#include "core/bytes.h"
#include "graph/op.h"
#include "neap/error.h"
#include "neap/layers.h"
#include "plan/schedule.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/weights.h"
#include "pool/spill_store.h"
#include "runtime/checks.h"
#include "runtime/executor.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr Link kLink = {.write_bytes_per_ms = 1e5, .read_bytes_per_ms = 1e5};

Program timed_program(Graph graph, Device& device) {
  Program out = prepare(std::move(graph), device);
  out.costs.ms.assign(out.graph.nodes.size(), 0.05);
  return out;
}

std::int64_t fetched_bytes(const Plan& plan) {
  std::int64_t out = 0;
  for (const Instruction& in : plan.instructions) {
    if (in.action == Action::kFetchBegin) out += plan.slots[in.slot.index];
  }
  return out;
}

// Calls that run between begin and wait of a fetch.
int calls_beside_fetches(const Plan& plan) {
  int out = 0;
  int open = 0;
  for (const Instruction& in : plan.instructions) {
    if (in.action == Action::kFetchBegin) ++open;
    if (in.action == Action::kFetchWait) --open;
    if (is_call(in.action)) out += open > 0 ? 1 : 0;
  }
  return out;
}

// Two batches, the second with every byte's owner checked and what is freed poisoned; nothing of the weights that were
// brought out is left in the arena before the first.
void expect_same_bits(const Program& program, const Plan& plan, Device& device, const Leaves& leaves, bool in_ram) {
  const Graph& graph = program.graph;
  const auto want = evaluate(graph, leaves);
  const auto arena = device.make_arena(plan.peak_bytes, true);
  const auto store = make_spill_store(plan.slots, {.host_ram_bytes = in_ram ? 1 << 20 : 0});
  Executor executor(program, plan, device, *arena, store.get());
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    if (is_state(graph.tensors[i].role)) executor.write({i}, leaves.at(graph.tensors[i].name).data.data());
  }
  std::memset(arena->base() + plan.state_bytes, 0xEE, static_cast<std::size_t>(plan.peak_bytes - plan.state_bytes));
  for (int batch = 0; batch < 2; ++batch) {
    for (const TensorId id : graph.with_role(Role::kInput))
      executor.write(id, leaves.at(graph.at(id).name).data.data());
    if (batch == 0) {
      executor.run();
    } else {
      Checks checks(plan, graph, program.costs, arena->base());
      executor.run_with(checks);
    }
    for (const auto& [label, id] : graph.outputs) {
      const auto& bytes = want[id.index].data;
      EXPECT_EQ(std::memcmp(executor.at(id), bytes.data(), bytes.size()), 0) << label << " of batch " << batch;
    }
  }
  EXPECT_EQ(executor.peak_bytes(), plan.peak_bytes);
}

// How many plans were tried that keep weights outside.
int try_budgets(std::uint64_t seed, Device& device, bool is_ahead) {
  const Program program = timed_program(random_inference_graph(seed), device);
  const Graph& graph = program.graph;
  const std::int64_t kept = std::get<Plan>(make_plan(graph, program.costs, {})).peak_bytes;
  Link link = kLink;
  link.is_ahead = is_ahead;
  const PlanningProblem problem{.graph = graph, .costs = program.costs, .link = link};
  const WeightSearch search(problem);
  const std::int64_t least = search.smallest().plan.peak_bytes;
  int tried = 0;
  for (std::int64_t budget = least; budget < kept; budget += std::max<std::int64_t>(1, (kept - least + 3) / 4)) {
    const auto found = search.fastest(budget);
    EXPECT_TRUE(found);
    if (!found) continue;
    const Plan& plan = found->plan;
    const auto error = validate(plan, graph, program.costs);
    EXPECT_FALSE(error) << *error;
    EXPECT_LE(plan.peak_bytes, budget);
    EXPECT_EQ(simulate(plan, program.costs).peak_bytes, plan.peak_bytes);
    EXPECT_TRUE(is_ahead || calls_beside_fetches(plan) == 0);
    EXPECT_FALSE(plan.slots.empty());
    if (!error) expect_same_bits(program, plan, device, leaves_of(graph), seed % 2 == 0);
    ++tried;
  }
  return tried;
}

TEST(Weights, EveryBudgetGivesTheBitsOfPlainMemory) {
  const auto device = make_cpu_device(2);
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    for (const bool is_ahead : {true, false}) tried += try_budgets(seed, *device, is_ahead);
  }
  EXPECT_GT(tried, 100);
}

// A row of layers, the first and the last with the same weight.
Graph layers(int count) {
  Builder g;
  Value x = g.input("x", DType::kF32, {8, 128});
  const Value tied = g.parameter("tied", {128, 128}, Init::normal(0.1));
  x = g("gelu", {g("linear", {x, tied})});
  for (int i = 0; i < count; ++i) {
    x = g("gelu", {g("linear", {x, g.parameter("w" + std::to_string(i), {128, 128}, Init::normal(0.1))})});
  }
  g.output("y", g("linear", {x, tied}));
  return g.take();
}

TEST(Weights, AsManyStayAsFitAndTheLargerBudgetMovesLess) {
  const auto device = make_cpu_device(2);
  const Program program = timed_program(layers(12), *device);
  const PlanningProblem problem{.graph = program.graph, .costs = program.costs, .link = kLink};
  const WeightSearch search(problem);
  const std::int64_t kept = std::get<Plan>(make_plan(program.graph, program.costs, {})).peak_bytes;
  const Plan least = search.smallest().plan;
  EXPECT_LT(least.peak_bytes, kept / 4);
  EXPECT_EQ(least.slots.size(), 13U);
  EXPECT_EQ(fetched_bytes(least), 14 * 64 * kKiB) << "what is read at both ends comes in twice";
  std::int64_t moved = fetched_bytes(least) + 1;
  for (const std::int64_t budget : {kept / 3, kept / 2, kept * 3 / 4, kept}) {
    const Plan plan = search.fastest(budget)->plan;
    EXPECT_LT(fetched_bytes(plan), moved);
    EXPECT_GT(plan.peak_bytes, budget - 160 * kKiB) << "the budget is used";
    moved = fetched_bytes(plan);
  }
  EXPECT_EQ(moved, 0);
}

TEST(Weights, PrefetchingRunsBesideCallsAndIsFaster) {
  const auto device = make_cpu_device(2);
  const Program program = timed_program(layers(12), *device);
  Link link{.read_bytes_per_ms = 1e6};
  const auto planned = [&](bool is_ahead, std::int64_t budget) {
    link.is_ahead = is_ahead;
    const PlanningProblem problem{.graph = program.graph, .costs = program.costs, .link = link};
    return WeightSearch(problem).fastest(budget)->plan;
  };
  const std::int64_t budget = std::get<Plan>(make_plan(program.graph, program.costs, {})).peak_bytes / 2;
  const Plan ahead = planned(true, budget);
  const Plan late = planned(false, budget);
  EXPECT_GT(calls_beside_fetches(ahead), 6);
  EXPECT_EQ(calls_beside_fetches(late), 0);
  EXPECT_LT(simulate(ahead, program.costs, link).stalled_ms, 0.5 * simulate(late, program.costs, link).stalled_ms);
}

// The largest weight sets the minimum; beside the others there is room at other moments.
TEST(Weights, AtTheMinimumFetchesBeginWhereThereIsRoom) {
  Builder g;
  Value x = g.input("x", DType::kF32, {8, 128});
  for (int i = 0; i < 5; ++i) x = g("gelu", {linear(g, "before" + std::to_string(i), x, 128)});
  x = linear(g, "down", g("gelu", {linear(g, "up", x, 1024)}), 128);
  for (int i = 0; i < 5; ++i) x = g("gelu", {linear(g, "behind" + std::to_string(i), x, 128)});
  g.output("y", x);
  const auto device = make_cpu_device(2);
  const Program program = timed_program(g.take(), *device);
  const PlanningProblem problem{.graph = program.graph, .costs = program.costs, .link = kLink};
  const WeightSearch search(problem);
  const std::int64_t least = search.smallest().plan.peak_bytes;
  const Plan plan = search.fastest(least)->plan;
  EXPECT_FALSE(validate(plan, program.graph, program.costs));
  EXPECT_LE(plan.peak_bytes, least);
  EXPECT_GT(calls_beside_fetches(plan), 4);
}

TEST(Weights, ValidateSeesWhatIsWrongWithThem) {
  const auto device = make_cpu_device(2);
  const Program program = timed_program(layers(6), *device);
  const Graph& graph = program.graph;
  const PlanningProblem problem{.graph = graph, .costs = program.costs, .link = kLink};
  const std::int64_t kept = std::get<Plan>(make_plan(graph, program.costs, {})).peak_bytes;
  const Plan sound = WeightSearch(problem).fastest(kept / 2)->plan;
  ASSERT_FALSE(validate(sound, graph, program.costs));
  int tried = 0;
  for (std::size_t i = 0; i < sound.instructions.size(); ++i) {
    if (!is_transfer(sound.instructions[i].action)) continue;
    ++tried;
    Plan missing = sound;
    missing.instructions.erase(missing.instructions.begin() + static_cast<std::ptrdiff_t>(i));
    for (Block& b : missing.blocks) {
      b.lower -= b.lower > i ? 1 : 0;
      b.upper -= b.upper > i ? 1 : 0;
    }
    EXPECT_TRUE(validate(missing, graph, program.costs)) << i;
    Plan other = sound;
    SlotId& slot = other.instructions[i].slot;
    slot.index = (slot.index + 1) % static_cast<std::uint32_t>(sound.slots.size());
    EXPECT_TRUE(validate(other, graph, program.costs)) << i;
  }
  EXPECT_GT(tried, 4);
  Plan small = sound;
  small.slots[0] -= 64;
  EXPECT_TRUE(validate(small, graph, program.costs));
}

// A copy of what a step changes would be lost.
TEST(Weights, ThoseThatChangeStay) {
  const auto device = make_cpu_device(2);
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Program program = prepare(random_training_graph(seed), *device);
    const Graph& graph = program.graph;
    const std::vector<bool> can = find_streamable(graph, find_views(graph));
    for (const Node& node : graph.nodes) {
      if (!node.op->side_effects()) continue;
      const TensorId changed = node.inputs[node.op->mutates[0]];
      EXPECT_FALSE(can[changed.index]) << graph.at(changed).name;
      Decisions decisions;
      decisions.residency.resize(graph.tensors.size());
      decisions.residency[changed.index] = Residency::kSpill;
      EXPECT_THROW(make_plan(graph, program.costs, decisions), InternalError);
      ++tried;
    }
  }
  EXPECT_GT(tried, 5);
}

}  // namespace
}  // namespace neap
