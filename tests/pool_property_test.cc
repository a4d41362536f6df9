// The pool's plans: valid, and to the same bits, whatever is predicted; and better where more is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "autodiff/optimizer.h"
#include "core/bytes.h"
#include "core/random.h"
#include "neap/builtin_models.h"
#include "ops/evaluate.h"
#include "plan/validate.h"
#include "pool/pool_plan.h"
#include "pool/simple_predictors.h"
#include "pool/spill_store.h"
#include "runtime/executor.h"
#include "tests/random_graph.h"
#include "train/model_spec.h"
#include "train/state.h"

namespace neap {
namespace {

std::vector<std::byte> leaf_value(const Tensor& t) {
  HostTensor value(t.type);
  if (t.name == kHyperInput) {
    const Hyper hyper = hyper_at(1, 0.1, {.name = "sgd"});
    std::memcpy(value.data.data(), hyper.data(), sizeof hyper);
  } else if (is_state(t.role)) {
    return initial_value(t, 3);
  } else if (t.type.dtype == DType::kF32) {
    RandomStream random(5);
    for (std::int64_t i = 0; i < t.type.elements(); ++i) value.floats()[i] = static_cast<float>(random.normal());
  }
  return {value.data.begin(), value.data.end()};
}

// All parameters after `steps` steps of a plan.
std::vector<std::byte> trained(const Program& program, const Plan& plan, Device& device, int steps) {
  const Graph& graph = program.graph;
  const auto arena = device.make_arena(plan.peak_bytes, true);
  const auto store = make_spill_store(plan.slots, {});
  Executor executor(program, plan, device, *arena, store.get());
  std::vector<std::byte> out;
  for (int step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      if (!t.producer && (step == 0 || !is_state(t.role))) executor.write({i}, leaf_value(t).data());
    }
    executor.run();
  }
  EXPECT_EQ(executor.peak_bytes(), plan.peak_bytes);
  for (const TensorId id : graph.with_role(Role::kParameter)) {
    const auto size = static_cast<std::size_t>(graph.at(id).type.bytes());
    out.insert(out.end(), executor.at(id), executor.at(id) + size);
  }
  return out;
}

class PoolProperty : public testing::TestWithParam<int> {};

TEST_P(PoolProperty, AnyPredictorGivesAValidPlanAndTheSameBits) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  const auto device = make_cpu_device(2);
  Program program = prepare(random_training_graph(seed), *device);
  program.costs.ms.assign(program.graph.nodes.size(), 0.01);
  const Graph& graph = program.graph;
  const Plan exact = std::get<Plan>(make_plan(graph, program.costs, store_all(graph)));
  const std::vector<std::byte> want = trained(program, exact, *device, 2);
  const std::int64_t activations = exact.peak_bytes - exact.state_bytes;
  int planned = 0;
  for (const std::string_view name : predictor_names()) {
    const auto predictor = predictor_named(name);
    for (const int percent : {0, 200, 100, 80}) {  // 0: no limit
      PoolSettings settings{.link = {.write_bytes_per_ms = 1e5, .read_bytes_per_ms = 1e5}};
      if (percent > 0) settings.capacity = exact.state_bytes + activations * percent / 100 + kPage;
      const PoolOutcome outcome = plan_with_pool(graph, program.costs, *predictor, settings);
      EXPECT_EQ(outcome.plan.has_value(), outcome.reason.empty());
      ASSERT_TRUE(outcome.plan || percent > 0) << name << ": " << outcome.reason;
      predictor->observe(outcome.events.events, outcome.events.lifespans);
      if (!outcome.plan) continue;
      ++planned;
      const auto error = validate(*outcome.plan, graph, program.costs);
      ASSERT_FALSE(error) << name << " at " << percent << ": " << *error;
      EXPECT_LE(outcome.plan->peak_bytes, settings.capacity);
      EXPECT_GE(outcome.plan->peak_bytes, outcome.minimum_bytes);
      EXPECT_EQ(trained(program, *outcome.plan, *device, 2), want) << name << " at " << percent;
    }
  }
  EXPECT_GT(planned, 9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolProperty, testing::Range(0, 24));

struct ModelCase {
  const char* model;
  std::int64_t batch;
  std::int64_t length;
};

Program program_of(const ModelCase& c, Device& device) {
  TrainOptions options;
  options.batch = c.batch;
  options.length = c.length;
  Program out = prepare(build_training(make_spec(open_builtin_model(c.model), options), options), device);
  out.costs.ms.assign(out.graph.nodes.size(), 0.1);
  return out;
}

constexpr ModelCase kLstm{"lstm-lm:hidden=64,vocab=64", 32, 128};
constexpr ModelCase kGpt{"gpt-mini:layers=3,width=64,heads=2,vocab=128", 4, 64};

TEST(PoolPlan, WithExactLifetimesItIsAsSmallAsThePackers) {
  const auto device = make_cpu_device(2);
  for (const ModelCase& c : {kLstm, kGpt}) {
    const Program program = program_of(c, *device);
    const Plan exact = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));
    const auto peak = [&](const char* name) {
      const PoolOutcome outcome = plan_with_pool(program.graph, program.costs, *predictor_named(name), {});
      return static_cast<double>(outcome.stats.peak_bytes - exact.state_bytes);
    };
    const double oracle = peak("oracle");
    EXPECT_LE(oracle, 1.02 * static_cast<double>(exact.peak_bytes - exact.state_bytes)) << c.model;
    for (const char* worse : {"zero", "infinite", "random", "adversarial"}) {
      EXPECT_GT(peak(worse), 1.02 * oracle) << c.model << " " << worse;
    }
  }
}

TEST(PoolPlan, BelowStoreAllItSpillsAndKnowingMoreSpillsLess) {
  const auto device = make_cpu_device(2);
  const Program program = program_of(kGpt, *device);
  const Plan exact = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));
  const std::vector<std::byte> want = trained(program, exact, *device, 1);
  std::map<std::string_view, std::int64_t> moved;
  for (const char* name : {"oracle", "zero", "infinite", "random", "adversarial", "nan"}) {
    const PoolOutcome outcome = plan_with_pool(
        program.graph, program.costs, *predictor_named(name),
        {.capacity = exact.state_bytes + (exact.peak_bytes - exact.state_bytes) * 3 / 4, .link = {1e5, 1e5}});
    ASSERT_TRUE(outcome.plan) << name << ": " << outcome.reason;
    EXPECT_FALSE(validate(*outcome.plan, program.graph, program.costs)) << name;
    EXPECT_GT(outcome.stats.spilled_bytes, 0) << name;
    moved[name] = outcome.stats.spilled_bytes + outcome.stats.fetched_bytes;
    EXPECT_EQ(trained(program, *outcome.plan, *device, 1), want) << name;
  }
  for (const auto& [name, bytes] : moved) EXPECT_LE(moved["oracle"], bytes) << name;
}

TEST(PoolPlan, MissesAreCounted) {
  const auto device = make_cpu_device(2);
  const Program program = program_of(kGpt, *device);
  const auto stats = [&](const char* name) {
    return plan_with_pool(program.graph, program.costs, *predictor_named(name), {}).stats;
  };
  EXPECT_EQ(stats("oracle").expired_early + stats("oracle").expired_late, 0);
  EXPECT_GT(stats("zero").expired_early, 0);
  EXPECT_EQ(stats("zero").expired_late, 0);
  EXPECT_EQ(stats("infinite").expired_early, 0);
  EXPECT_GT(stats("infinite").expired_late, 0);
  EXPECT_GT(stats("nan").expired_early, 0);
}

// The state of another plan stays where it is.
TEST(PoolPlan, KeepsTheStateOfAnotherPlan) {
  const auto device = make_cpu_device(2);
  const Program first = program_of(kLstm, *device);
  const Program second = program_of({kLstm.model, kLstm.batch, 64}, *device);
  const Plan base = std::get<Plan>(make_plan(first.graph, first.costs, store_all(first.graph)));
  const StateLayout layout = layout_of(base, first.graph);
  const auto plan = pool_plan(second.graph, second.costs, *predictor_named("oracle"), base.peak_bytes, &layout, 64);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(validate(*plan, second.graph, second.costs));
  for (const auto& [name, offset] : layout_of(*plan, second.graph).offsets) {
    const bool is_shared = second.graph.at(*second.graph.find(name)).role != Role::kConstant;
    EXPECT_TRUE(!is_shared || offset == layout.offsets.at(name)) << name;
  }
}

TEST(PoolPlan, APoolBelowTheLargestCallIsRefusedWithTheMinimum) {
  const auto device = make_cpu_device(2);
  const Program program = program_of(kGpt, *device);
  const auto predictor = predictor_named("oracle");
  const PoolOutcome none = plan_with_pool(program.graph, program.costs, *predictor, {.capacity = 4096});
  EXPECT_FALSE(none.plan);
  EXPECT_GT(none.minimum_bytes, 4096);
  EXPECT_NE(none.reason.find(std::to_string(none.minimum_bytes)), std::string::npos) << none.reason;
  const PoolOutcome below =
      plan_with_pool(program.graph, program.costs, *predictor, {.capacity = none.minimum_bytes - 1});
  EXPECT_FALSE(below.plan);
}

TEST(PoolPlan, SpillSpaceThatIsUsedUpIsAReason) {
  const auto device = make_cpu_device(2);
  const Program program = program_of(kGpt, *device);
  const Plan exact = std::get<Plan>(make_plan(program.graph, program.costs, store_all(program.graph)));
  PoolSettings settings{.capacity = exact.state_bytes + (exact.peak_bytes - exact.state_bytes) * 3 / 4};
  const auto predictor = predictor_named("oracle");
  ASSERT_TRUE(plan_with_pool(program.graph, program.costs, *predictor, settings).plan);
  settings.spill_bytes = kPage;
  const PoolOutcome none = plan_with_pool(program.graph, program.costs, *predictor, settings);
  EXPECT_FALSE(none.plan);
  EXPECT_NE(none.reason.find("used up"), std::string::npos) << none.reason;
}

// One place in the arena serves forward, backward and the optimizer within a step.
TEST(PoolPlan, SharingCrossesLayersAndPhases) {
  const auto device = make_cpu_device(2);
  const Program program = program_of(kGpt, *device);
  const auto plan = pool_plan(program.graph, program.costs, *predictor_named("oracle"), kNoBudget, nullptr, 64);
  ASSERT_TRUE(plan);
  std::map<std::int64_t, std::set<Phase>> phases;  // by offset
  std::map<std::int64_t, std::set<std::string>> layers;
  for (const Instruction& in : plan->instructions) {
    const auto note = [&](const Operand& o) {
      if (!o.block || plan->blocks[o.block.index].kind == BlockKind::kState) return;
      const Node& node = program.graph.at(in.node);
      phases[plan->blocks[o.block.index].offset].insert(node.phase);
      layers[plan->blocks[o.block.index].offset].insert(node.layer);
    };
    std::for_each(in.inputs.begin(), in.inputs.end(), note);
    std::for_each(in.outputs.begin(), in.outputs.end(), note);
    note(in.workspace);
  }
  const auto shares = [](const auto& entry) { return entry.second.size() == 3; };
  EXPECT_TRUE(std::any_of(phases.begin(), phases.end(), shares));
  EXPECT_TRUE(std::any_of(layers.begin(), layers.end(), [](const auto& e) { return e.second.size() > 2; }));
}

}  // namespace
}  // namespace neap
