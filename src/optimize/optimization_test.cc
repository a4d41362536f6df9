#include "optimize/optimization.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

TEST(Optimizations, AreChosenByName) {
  EXPECT_TRUE(chosen_optimizations("off").empty());
  std::size_t exact = 0;
  for (const Optimization& each : optimizations()) exact += each.is_lossy || each.is_by_name ? 0 : 1;
  EXPECT_LT(exact, optimizations().size());
  EXPECT_EQ(chosen_optimizations("all").size(), exact);
  EXPECT_EQ(chosen_optimizations("adaptive").size(), exact);
  for (const Optimization& each : optimizations()) {
    const auto chosen = chosen_optimizations(each.name);
    ASSERT_EQ(chosen.size(), 1U);
    EXPECT_EQ(chosen[0], &each);
    EXPECT_FALSE(each.what.empty());
  }
}

TEST(Optimizations, RefuseWhatContradictsOrDoesNotExist) {
  EXPECT_THROW(chosen_optimizations(""), UserError);
  EXPECT_THROW(chosen_optimizations("fast"), UserError);
  EXPECT_THROW(chosen_optimizations("off,vocab-loss"), UserError);
  EXPECT_THROW(chosen_optimizations("vocab-loss,all"), UserError);
  EXPECT_THROW(chosen_optimizations("vocab-loss,"), UserError);
}

TEST(Optimizations, SayWhatIsNotForTraining) {
  EXPECT_NO_THROW(refuse_for_training(chosen_optimizations("all")));
  EXPECT_THROW(refuse_for_training(chosen_optimizations("fuse,int8")), UserError);
}

}  // namespace
}  // namespace neap
