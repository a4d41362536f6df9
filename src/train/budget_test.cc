#include "train/budget.h"

#include <gtest/gtest.h>

#include "core/file_testing.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr BudgetBase kBase = {.state_bytes = 1000, .store_all_bytes = 3000, .min_bytes = 1500};

TEST(Budget, TakesBytesSharesAndTheMinimum) {
  EXPECT_EQ(parse_budget("", kBase), std::nullopt);
  EXPECT_EQ(parse_budget("4096", kBase), 4096);
  EXPECT_EQ(parse_budget("2KiB", kBase), 2048);
  EXPECT_EQ(parse_budget("1.5GB", kBase), 1'500'000'000);
  EXPECT_EQ(parse_budget("50%", kBase), 2000);
  EXPECT_EQ(parse_budget("100%", kBase), 3000);
  EXPECT_EQ(parse_budget("min", kBase), 1500);
  EXPECT_EQ(parse_budget("min+10%", kBase), 1650);
}

TEST(Budget, RefusesNonsense) {
  for (const char* text : {"abc", "-5", "min-5%", "min+", "min+x%", "%", "-10%", "12XiB", "nan", "inf", "1e99GB"}) {
    EXPECT_THROW(parse_budget(text, kBase), UserError) << text;
  }
}

TEST(Budget, IsBytesWhereThereIsNothingToHaveAShareOf) {
  EXPECT_EQ(budget_in_bytes("2KiB", "fit"), 2048);
  for (const char* text : {"50%", "min", ""}) {
    testing::expect_user_error([&] { budget_in_bytes(text, "--split auto"); }, {"--split auto", "bytes", text});
  }
}

}  // namespace
}  // namespace neap
