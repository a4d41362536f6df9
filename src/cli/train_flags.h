// The flags that train, plan and profile share.
#pragma once

#include <CLI/CLI.hpp>

#include "neap/train.h"

namespace neap {

struct TrainFlags {
  TrainOptions options;
  std::string schedule;
  std::string bn;
  std::string numerics = "fixed";
  std::string tolerance = "exact";
  std::string compute = "f32";
  std::string loss = "cross-entropy";
  std::string config;  // read before the flags are (cli/config.h)

  // Checks what the parser cannot, and completes `options`.
  void finish();
};

void add_train_flags(CLI::App& app, TrainFlags& flags);

}  // namespace neap
