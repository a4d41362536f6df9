// The flags that train, plan and profile share.
#pragma once

#include <CLI/CLI.hpp>

#include "neap/train.h"
#include "train/contradictions.h"

namespace neap {

struct TrainFlags {
  TrainOptions options;
  std::string schedule;
  std::string bn;
  std::string learnt;
  std::string recurrent_policy;
  std::string config;  // read before the flags are (cli/config.h)

  const CLI::App* app = nullptr;

  // Completes `options`, checks what the parser cannot, and refuses settings that contradict each other.
  void finish();
  // The same without the latter.
  void complete();
  GivenFlags given() const;
};

// The model of that name, with what there is to say about it on standard error.
std::shared_ptr<const Model> open_noted_model(const std::string& name);

// Where 'neap pretrain recurrent' writes and training looks, unless told otherwise.
std::string recurrent_policy_path();

void add_train_flags(CLI::App& app, TrainFlags& flags);

}  // namespace neap
