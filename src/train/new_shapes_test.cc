#include "train/new_shapes.h"

#include <gtest/gtest.h>

#include "neap/builtin_models.h"
#include "neap/error.h"
#include "plan/validate.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"

namespace neap {
namespace {

Program program_at(std::int64_t length, Device& device) {
  TrainOptions options;
  options.batch = 16;
  options.length = length;
  return prepare(build_training(make_spec(open_builtin_model("lstm-lm:hidden=32,vocab=64"), options), options), device);
}

TEST(NewShapes, ArePlannedByThePoolWhereItFitsAndElseNotAtAll) {
  const auto device = make_cpu_device(2);
  for (const char* name : {"lstm", "regression", "zero", "infinite", "random", "adversarial"}) {
    NewShapes shapes(name, 0);
    for (const std::int64_t length : {64, 96, 64}) {
      const Program program = program_at(length, *device);
      const PlanningProblem problem{.graph = program.graph, .costs = program.costs};
      const auto plan = shapes.plan(store_all_policy(), problem, kNoBudget, length);
      ASSERT_TRUE(plan) << name;
      EXPECT_FALSE(validate(*plan, program.graph, program.costs)) << name;
      shapes.note_step();
    }
    EXPECT_EQ(shapes.from_pool(), 3) << name;
    const Program program = program_at(128, *device);
    const PlanningProblem problem{.graph = program.graph, .costs = program.costs};
    const std::int64_t needed = store_all_policy().smallest(problem).peak_bytes;
    EXPECT_FALSE(shapes.plan(store_all_policy(), problem, needed - 1, 128));
    EXPECT_EQ(shapes.from_policy(), 1) << name << ": only spilling would do";
  }
  NewShapes exact("exact", 0);
  const Program program = program_at(64, *device);
  EXPECT_FALSE(exact.plan(store_all_policy(), {.graph = program.graph, .costs = program.costs}, kNoBudget, 64));
  exact.note_step();
  EXPECT_EQ(exact.from_pool(), 0);
}

TEST(NewShapes, NameTheirPredictors) { EXPECT_THROW(NewShapes("tea-leaves", 0), UserError); }

}  // namespace
}  // namespace neap
