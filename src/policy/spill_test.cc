#include "policy/spill.h"

#include <gtest/gtest.h>

#include "device/device.h"
#include "neap/builtin_models.h"
#include "plan/schedule.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "policy/joint.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"
#include "train/setup.h"

namespace neap {
namespace {

// Recurrent layers with every node as slow as the next, and a link.
class Spills : public ::testing::Test {
 protected:
  Spills() : program_(make_program(*make_null_device())) {
    program_.costs.ms.assign(program_.graph.nodes.size(), 1);
    settled_.of.assign(program_.graph.tensors.size(), precision::Level::kFp32);
  }

  static Program make_program(Device& device) {
    TrainOptions options;
    options.batch = 8;
    options.length = 64;
    const auto model = open_builtin_model("lstm-lm:hidden=128,vocab=64");
    return prepare(build_training(make_spec(model, options), options), device);
  }

  PlanningProblem problem(const StoredLevels* levels = nullptr) const {
    return {.graph = program_.graph,
            .costs = program_.costs,
            .link = {.write_bytes_per_ms = 1e5, .read_bytes_per_ms = 1e5},
            .levels = levels};
  }

  Program program_;
  StoredLevels settled_{.of = {}, .is_settled = true};  // that nothing is rounded
};

TEST_F(Spills, AsFarWithLevelsThatRoundNothingAsWithNone) {
  const PlanningProblem exact = problem();
  const PlanningProblem settled = problem(&settled_);
  const std::int64_t least = SpillSearch(exact, {}).smallest().peak_bytes;
  EXPECT_EQ(SpillSearch(settled, {}).smallest().peak_bytes, least);
  EXPECT_EQ(joint_smallest(settled, true).peak_bytes, joint_smallest(exact, true).peak_bytes);
  const auto found = SpillSearch(settled, {}).fastest(least);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ms, SpillSearch(exact, {}).fastest(least)->ms);
}

TEST_F(Spills, AnewWhatAPlanWithPartsInTheirPlacesKeeps) {
  const PlanningProblem p = problem();
  const Plan kept = store_all_policy().smallest(p);
  const std::int64_t budget = (kept.peak_bytes + SpillSearch(p, store_all(program_.graph)).smallest().peak_bytes) / 2;
  const std::optional<TimedPlan> anew = spilled_anew(p, kept, budget);
  ASSERT_TRUE(anew);
  EXPECT_FALSE(validate(anew->plan, program_.graph, program_.costs));
  EXPECT_LE(anew->plan.peak_bytes, budget);
  EXPECT_FALSE(anew->plan.slots.empty());
  EXPECT_EQ(anew->ms, SpillSearch(p, store_all(program_.graph)).fastest(budget)->ms);
}

TEST_F(Spills, AtTheLeastTensorsLeaveForShortWaitsToo) {
  const PlanningProblem p = problem();
  const std::vector<Window> views = find_views(program_.graph);
  Decisions long_waits = store_all(program_.graph);
  for (std::uint32_t i = 0; i < program_.graph.tensors.size(); ++i) {
    if (can_leave(program_.graph, views, {i})) long_waits.residency[i] = Residency::kSpill;
  }
  long_waits.link = p.link;
  long_waits.early_updates = true;
  long_waits.every_wait_above = 6;
  const Plan plan = std::get<Plan>(make_plan(program_.graph, program_.costs, long_waits, kNoBudget));
  const Plan least = spill_policy().smallest(p);
  EXPECT_LT(least.peak_bytes, plan.peak_bytes);
  EXPECT_LE(joint_smallest(p, true).peak_bytes, least.peak_bytes);
  EXPECT_FALSE(validate(least, program_.graph, program_.costs));
}

// Where neither keeping everything nor recomputation alone fits, there is more than the plan of the fewest bytes.
TEST_F(Spills, WithinTheMinimumFasterThanTheSmallestPlan) {
  const PlanningProblem p = problem();
  const Plan least = joint_smallest(p, true);
  ASSERT_GT(oracle_policy().smallest(p).peak_bytes, least.peak_bytes);
  const std::optional<TimedPlan> found = joint_within(p, least.peak_bytes, 1e30, true);
  ASSERT_TRUE(found);
  EXPECT_FALSE(validate(found->plan, program_.graph, program_.costs));
  EXPECT_LE(found->plan.peak_bytes, least.peak_bytes);
  EXPECT_LT(found->ms, simulate(least, p.costs, p.link).ms);
}

}  // namespace
}  // namespace neap
