// For tests: a run that was stopped goes on to the bits of one that was not.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/file_testing.h"
#include "neap/train.h"

namespace neap::testing {

// Trains `options.steps` steps with a checkpoint in the middle, and once more from there.
inline void expect_same_bits_resumed(TrainOptions options) {
  const TempDir folder;
  options.checkpoint = folder.path().string();
  const std::int64_t half = options.steps / 2;
  std::string expected;
  {
    Trainer whole(options);
    while (whole.step() < options.steps) {
      if (whole.step() == half) whole.checkpoint();
      whole.advance();
    }
    expected = whole.summary().weights_hash;
  }
  options.resume = true;
  Trainer rest(options);
  EXPECT_EQ(rest.step(), half);
  while (rest.step() < options.steps) rest.advance();
  EXPECT_EQ(rest.summary().weights_hash, expected) << options.precision.tolerance;
}

}  // namespace neap::testing
