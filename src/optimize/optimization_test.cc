#include "optimize/optimization.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

TEST(Optimizations, AreChosenByName) {
  EXPECT_TRUE(chosen_optimizations("off").empty());
  EXPECT_EQ(chosen_optimizations("all").size(), optimizations().size());
  EXPECT_EQ(chosen_optimizations("adaptive").size(), optimizations().size());
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

}  // namespace
}  // namespace neap
