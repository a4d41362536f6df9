#include "optimize/optimization.h"

#include <gtest/gtest.h>

#include <set>

#include "neap/error.h"
#include "ops/has_kernel.h"

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

TEST(Optimizations, OnAGpuMakeWhatHasKernelsThere) {
  for (const Optimization& each : optimizations()) {
    EXPECT_TRUE(each.on_cuda == OnCuda::kNo || has_kernel(op_named(each.makes), DeviceKind::kCuda)) << each.name;
    EXPECT_EQ(chosen_optimizations(each.name, true).size(), each.on_cuda == OnCuda::kNo ? 0U : 1U) << each.name;
  }
  const auto names = [](std::string_view text) {
    std::set<std::string_view> out;
    for (const Optimization* each : chosen_optimizations(text, true)) out.insert(each->name);
    return out;
  };
  EXPECT_EQ(names("adaptive"), (std::set<std::string_view>{"fuse", "sparse", "vocab-loss"}));
  EXPECT_EQ(names("vocab-loss,tied-update,layout"), (std::set<std::string_view>{"vocab-loss", "tied-update"}));
}

TEST(Optimizations, SayWhereTheyKeepBits) {
  for (const Optimization& each : optimizations()) {
    EXPECT_EQ(each.keeps_bits(false), each.is_bitwise) << each.name;
    EXPECT_EQ(each.keeps_bits(true), each.is_bitwise && each.name != "tied-update") << each.name;
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

// What a GPU does not take is refused by name, and said of all.
TEST(Optimizations, SayWhatIsNotForAGpu) {
  EXPECT_NO_THROW(refuse_for_cuda("adaptive"));
  EXPECT_NO_THROW(refuse_for_cuda("all"));
  EXPECT_NO_THROW(refuse_for_cuda("off"));
  EXPECT_NO_THROW(refuse_for_cuda("fuse"));
  try {
    refuse_for_cuda("norm,fuse,epilogue");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()).find("--optimize epilogue, norm: not with --device cuda, which takes "), 0U);
    EXPECT_NE(std::string(e.what()).find("fuse"), std::string::npos);
  }
  EXPECT_EQ(not_for_cuda("fuse"), "");
  EXPECT_NE(not_for_cuda("all").find("epilogue"), std::string::npos);
}

}  // namespace
}  // namespace neap
