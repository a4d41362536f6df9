#include "train/settle.h"

#include <gtest/gtest.h>

#include "device/device.h"
#include "neap/builtin_models.h"
#include "plan/simulate.h"
#include "policy/storable.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"
#include "train/setup.h"

namespace neap {
namespace {

// Recurrent layers with every node as slow as the next, a link, and levels to choose from.
class Settling : public ::testing::Test {
 protected:
  Settling() : program_(make_program(*make_null_device())) {
    program_.costs.ms.assign(program_.graph.nodes.size(), 1);
    levels_ = fixed_levels(program_.graph, precision::Level::kInt8);
  }

  static Program make_program(Device& device) {
    TrainOptions options;
    options.batch = 8;
    options.length = 64;
    const auto model = open_builtin_model("lstm-lm:hidden=128,vocab=64");
    return prepare(build_training(make_spec(model, options), options), device);
  }

  PlanningProblem problem() const {
    return {.graph = program_.graph,
            .costs = program_.costs,
            .link = {.write_bytes_per_ms = 1e6, .read_bytes_per_ms = 1e6},
            .levels = &levels_};
  }

  // That share of what lies between the least and everything.
  std::int64_t budget_of(int percent) const {
    const std::int64_t all = plan_within(store_all_policy(), problem(), std::nullopt).peak_bytes;
    const std::int64_t least = policy_->smallest(problem()).peak_bytes;
    return least + (all - least) * percent / 100;
  }

  double ms_of(const Plan& plan) const { return simulate(plan, program_.costs, problem().link).ms; }

  Program program_;
  StoredLevels levels_;
  std::shared_ptr<const Policy> policy_ = make_policy("oracle", {}, true);
};

TEST_F(Settling, TakesNoLongerForTheSakeOfStaying) {
  const std::int64_t budget = budget_of(82);
  const Plan fastest = plan_within(*policy_, problem(), budget);
  EXPECT_LE(ms_of(settling_plan(*policy_, problem(), budget)), 1.005 * 1.03 * ms_of(fastest));
}

TEST_F(Settling, SendsAwayWhatIsMuchSlowerOtherwise) {
  const std::int64_t budget = budget_of(50);
  const Plan plan = settling_plan(*policy_, problem(), budget);
  EXPECT_FALSE(plan.slots.empty());
  EXPECT_LE(plan.peak_bytes, budget);
  EXPECT_LE(ms_of(plan), 1.03 * ms_of(plan_within(*policy_, problem(), budget)));
}

}  // namespace
}  // namespace neap
