// Properties of every plan, over random graphs and random decisions.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "autodiff/optimizer.h"
#include "core/random.h"
#include "graph/op.h"
#include "neap/error.h"
#include "ops/evaluate.h"
#include "plan/loose_transfers.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "plan/views.h"
#include "policy/spill.h"
#include "pool/spill_store.h"
#include "runtime/executor.h"
#include "tests/random_graph.h"
#include "train/state.h"

namespace neap {
namespace {

void set_random_transfers(RandomStream& random, Decisions& out) {
  constexpr std::int64_t kFlights[] = {0, 1000, 1 << 20};
  constexpr std::uint32_t kWaits[] = {0, 1, 2, 6};
  out.flight_bytes = kFlights[random.below(3)];
  out.early_updates = random.below(2) == 0;
  out.every_wait_above = kWaits[random.below(4)];
  out.link = {.write_bytes_per_ms = 1e3, .read_bytes_per_ms = 1e3};
}

bool can_go(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions, TensorId id) {
  return decisions.every_wait_above > 0 ? can_leave(graph, views, id) : can_spill(graph, views, id);
}

Decisions random_decisions(const Graph& graph, std::uint64_t seed) {
  RandomStream random(seed);
  const std::vector<Window> views = find_views(graph);
  Decisions out;
  set_random_transfers(random, out);
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    const bool may_go = t.producer && !graph.at(t.producer).op->side_effects();
    const auto draw = random.below(4);
    const bool leaves = draw == 1 && may_go && can_go(graph, views, out, {i});
    out.residency.push_back(leaves                ? Residency::kSpill
                            : may_go && draw >= 2 ? Residency::kRecompute
                                                  : Residency::kKeep);
  }
  return out;
}

// The program, with any nodes run again at any time, inputs first where they are gone (as they may be: which is the
// latest run's result matters, not whether there was one before), and sometimes with spills besides.
Decisions random_order(const Graph& graph, std::uint64_t seed) {
  RandomStream random(seed);
  const std::vector<Window> views = find_views(graph);
  Decisions out;
  std::vector<NodeId> repeatable;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool is_update = node.phase == Phase::kUpdate;
    if (is_view(graph, node) || (is_update && random.below(2) == 0)) continue;
    out.order.push_back({i});
    if (is_update) continue;
    if (!node.op->side_effects()) repeatable.push_back({i});
    while (!repeatable.empty() && random.below(3) != 0) {
      const std::uint64_t from = random.below(repeatable.size());  // a run of neighbours, as a segment would be
      for (std::uint64_t k = from; k < std::min<std::uint64_t>(from + 1 + random.below(4), repeatable.size()); ++k) {
        out.order.push_back(repeatable[k]);
      }
    }
  }
  if (random.below(2) == 0) return out;
  set_random_transfers(random, out);
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const bool leaves = random.below(2) == 0 && can_go(graph, views, out, {i});
    out.residency.push_back(leaves ? Residency::kSpill : Residency::kKeep);
  }
  return out;
}

// Small graphs have small tensors: all that can leave, in the order of their numbers.
std::vector<TensorId> spill_order_for_test(const Graph& graph) {
  const std::vector<Window> views = find_views(graph);
  const Decisions base = store_all(graph);
  std::vector<bool> is_read(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    for (const TensorId id : node.inputs) {
      if (id && node.phase == Phase::kBackward) is_read[views[id.index].root.index] = true;
    }
  }
  std::vector<TensorId> out;
  for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const bool is_kept = is_read[i] && base.residency[i] == Residency::kKeep;
    if (is_kept && can_spill(graph, views, {i})) out.push_back({i});
  }
  return out;
}

class PlanProperty : public testing::TestWithParam<int> {};

// A random graph whose plans are run on memory that nobody has cleared.
struct Bench {
  explicit Bench(std::uint64_t a_seed)
      : seed(a_seed),
        device(make_cpu_device(2)),
        program(prepare(random_training_graph(seed), *device)),
        leaves(leaves_of(program.graph)),
        want(evaluate(program.graph, leaves)) {
    program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  }

  void expect_bits(const Plan& plan) const {
    const Graph& graph = program.graph;
    const auto error = validate(plan, graph, program.costs);
    ASSERT_FALSE(error) << *error;
    const auto arena = device->make_arena(plan.peak_bytes, true);
    std::memset(arena->base(), 0xEE, static_cast<std::size_t>(plan.peak_bytes));
    const auto store = make_spill_store(plan.slots, {.host_ram_bytes = seed % 2 == 0 ? 1 << 20 : 0});
    Executor executor(program, plan, *device, *arena, store.get());
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

  std::uint64_t seed;
  std::unique_ptr<Device> device;
  Program program;
  Leaves leaves;
  std::vector<HostTensor> want;
};

TEST_P(PlanProperty, EveryPlanIsValidAndGivesTheBitsOfPlainMemory) {
  const Bench bench(static_cast<std::uint64_t>(GetParam()));
  const Graph& graph = bench.program.graph;
  const Costs& costs = bench.program.costs;
  std::vector<Decisions> all = {Decisions{}, store_all(graph)};
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(random_decisions(graph, 100 * bench.seed + i));
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(random_order(graph, 100 * bench.seed + i));
  for (const Decisions& decisions : all) {
    const Plan plan = std::get<Plan>(make_plan(graph, costs, decisions));
    bench.expect_bits(plan);
    if (plan.slots.empty()) {
      const Footprint sketch = footprint(graph, find_views(graph), costs, decisions);
      EXPECT_EQ(sketch.bytes, plan.lower_bound_bytes);
      EXPECT_DOUBLE_EQ(sketch.ms, simulate(plan, costs).ms);
    }
  }
}

TEST_P(PlanProperty, WithLooseTransfersItIsStillValidAndWithinTheBudget) {
  const Bench bench(static_cast<std::uint64_t>(GetParam()));
  const Graph& graph = bench.program.graph;
  const Costs& costs = bench.program.costs;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t seed = 100 * bench.seed + i;
    const Decisions decisions = i % 2 == 0 ? random_decisions(graph, seed) : random_order(graph, seed);
    const Plan plan = std::get<Plan>(make_plan(graph, costs, decisions));
    for (const double lead : {1.0, 16.0, kAsEarlyAsItCan}) {
      for (const std::int64_t more : {0, 4 << 10, 1 << 20}) {
        const Plan loose = with_loose_transfers(plan, costs, decisions.link, lead, plan.peak_bytes + more);
        EXPECT_LE(loose.peak_bytes, plan.peak_bytes + more);
        bench.expect_bits(loose);
      }
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

// The same for transfers.
TEST(Validate, SeesDamagedTransfers) {
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(7), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 1);
  const Graph& graph = program.graph;
  const std::vector<TensorId> order = spill_order_for_test(graph);
  ASSERT_GT(order.size(), 2U);
  const Link link = {.write_bytes_per_ms = 100, .read_bytes_per_ms = 100};
  const Plan sound = std::get<Plan>(
      make_plan(graph, program.costs, spill_first(store_all(graph), graph, order, order.size(), 1 << 20, link)));
  ASSERT_FALSE(validate(sound, graph, program.costs)) << *validate(sound, graph, program.costs);
  int unseen = 0;
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
    unseen += validate(missing, graph, program.costs) ? 0 : 1;
    Plan moved = sound;
    moved.instructions[i].slot.index =
        (moved.instructions[i].slot.index + 1) % static_cast<std::uint32_t>(order.size());
    unseen += validate(moved, graph, program.costs) ? 0 : 1;
  }
  EXPECT_GT(tried, 8);
  EXPECT_EQ(unseen, 0);
}

// What the spill policy searches by is what packing gets; more lead moves fetches forward and changes no other order.
TEST(PlanTransfers, FootprintIsTheBoundAndLeadBeginsFetchesEarlier) {
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(7), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 1);
  const Graph& graph = program.graph;
  const std::vector<TensorId> order = spill_order_for_test(graph);
  const auto decisions = [&](double lead) {
    return spill_first(store_all(graph), graph, order, order.size(), 1 << 20,
                       {.write_bytes_per_ms = 1e3, .read_bytes_per_ms = 1e3, .lead = lead});
  };
  const auto begins = [](const Plan& plan) {  // sum over fetches of the calls between begin and wait
    std::int64_t calls = 0;
    std::int64_t open = 0;
    for (const Instruction& in : plan.instructions) {
      if (in.action == Action::kFetchBegin) ++open;
      if (in.action == Action::kFetchWait) --open;
      if (!is_transfer(in.action)) calls += open;
    }
    return calls;
  };
  const Plan prompt = std::get<Plan>(make_plan(graph, program.costs, decisions(1)));
  const Plan early = std::get<Plan>(make_plan(graph, program.costs, decisions(16)));
  EXPECT_EQ(footprint(graph, find_views(graph), program.costs, decisions(1)).bytes, prompt.lower_bound_bytes);
  EXPECT_EQ(footprint(graph, find_views(graph), program.costs, decisions(16)).bytes, early.lower_bound_bytes);
  EXPECT_FALSE(validate(early, graph, program.costs));
  EXPECT_GT(begins(early), begins(prompt));
}

// At the same peak, since at other moments there is room.
TEST(PlanTransfers, LooseOnesHoldUpCallsForLess) {
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(7), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 1);
  const Graph& graph = program.graph;
  const std::vector<TensorId> order = spill_order_for_test(graph);
  const Link link{.write_bytes_per_ms = 1e3, .read_bytes_per_ms = 1e3};
  const Plan tight = std::get<Plan>(
      make_plan(graph, program.costs, spill_first(store_all(graph), graph, order, order.size(), 0, link)));
  const Simulation before = simulate(tight, program.costs, link);
  ASSERT_GT(before.stalled_ms, 0);
  const Plan loose = with_loose_transfers(tight, program.costs, link, 2, tight.peak_bytes);
  const Simulation after = simulate(loose, program.costs, link);
  EXPECT_EQ(loose.peak_bytes, tight.peak_bytes);
  EXPECT_EQ(after.spilled_bytes, before.spilled_bytes);
  EXPECT_LT(after.stalled_ms, before.stalled_ms / 2);
  const Plan roomy = with_loose_transfers(tight, program.costs, link, 2, 2 * tight.peak_bytes);
  EXPECT_LE(simulate(roomy, program.costs, link).stalled_ms, after.stalled_ms);
}

// An order that reads a weight again after its update makes other bits: validate() sees it.
TEST(Validate, SeesStateThatChangesBeforeItIsReadAgain) {
  const auto device = make_cpu_device(2);
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Program program = prepare(random_training_graph(seed), *device);
    const Graph& graph = program.graph;
    Decisions decisions;
    std::vector<NodeId> products;
    std::set<TensorId> updated;
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      if (!is_view(graph, graph.nodes[i])) decisions.order.push_back({i});
      if (graph.nodes[i].op->name == "linear" && graph.nodes[i].phase == Phase::kForward) products.push_back({i});
      if (graph.nodes[i].op->side_effects()) updated.insert(graph.nodes[i].inputs[0]);
    }
    if (updated.empty()) continue;
    const auto fault = [&](const Decisions& d) {
      return validate(std::get<Plan>(make_plan(graph, program.costs, d)), graph, program.costs).value_or("");
    };
    EXPECT_EQ(fault(decisions), "");
    for (const NodeId product : products) {
      Decisions late = decisions;
      late.order.push_back(product);
      const TensorId weight = graph.at(product).inputs[1];
      if (!updated.contains(weight)) continue;  // nothing flows back to it
      EXPECT_NE(fault(late).find("reads '" + graph.at(weight).name + "' when it was changed"), std::string::npos);
      ++tried;
    }
    Decisions twice = decisions;
    twice.order.push_back(twice.order.back());  // an update
    EXPECT_THROW(make_plan(graph, program.costs, twice), InternalError);
  }
  EXPECT_GT(tried, 5);
}

// Segments within segments: what a first recomputation made can be dropped and made once more.
TEST(Order, RunsWhatItSaysAndFreesInBetween) {
  const auto device = make_cpu_device(1);
  const Program program = prepare(random_training_graph(11), *device);
  const Graph& graph = program.graph;
  Decisions decisions;
  bool in_backward = false;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_view(graph, graph.nodes[i]) || graph.nodes[i].phase == Phase::kUpdate) continue;
    const bool begins_backward = graph.nodes[i].phase == Phase::kBackward && !in_backward;
    in_backward |= begins_backward;
    if (begins_backward) {  // all of forward, twice more
      const std::vector<NodeId> forward = decisions.order;
      decisions.order.insert(decisions.order.end(), forward.begin(), forward.end());
      decisions.order.insert(decisions.order.end(), forward.begin(), forward.end());
    }
    decisions.order.push_back({i});
  }
  const Plan plan = std::get<Plan>(make_plan(graph, program.costs, decisions));
  const Plan once = std::get<Plan>(make_plan(graph, program.costs, {}));
  ASSERT_FALSE(validate(plan, graph, program.costs));
  const auto again = std::count_if(plan.instructions.begin(), plan.instructions.end(),
                                   [](const Instruction& in) { return in.action == Action::kRecompute; });
  EXPECT_GT(again, 10);
  const std::int64_t batch = 6 * 48 * 4;  // which lives longer
  EXPECT_LE(plan.lower_bound_bytes, once.lower_bound_bytes + batch)
      << "what is made again lies beside nothing of its own";
}

}  // namespace
}  // namespace neap
