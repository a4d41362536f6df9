// Searches for sizes that fit, which plan some hundred times.
#include <gtest/gtest.h>

#include "neap/builtin_models.h"
#include "neap/train.h"

namespace neap {
namespace {

// Where twice as many parts bring nothing, since the batch is no multiple of them, others still may.
TEST(FitSearch, TriesNumbersOfPartsBehindOneThatBringsNothing) {
  TrainOptions options;
  options.model = "resnet20";
  options.image = 16;
  options.budget = "6MiB";
  const auto model = open_builtin_model(options.model);
  const auto largest = [&](std::int64_t split) {
    options.split = split;
    return fit_training(model, options, "batch").largest;
  };
  const std::int64_t whole = largest(1);
  ASSERT_LE(largest(2), whole);
  const std::int64_t found = largest(0);
  EXPECT_GT(found, whole);
  for (const std::int64_t split : {5, 7, 8}) EXPECT_GE(found, largest(split)) << split;
}

}  // namespace
}  // namespace neap
