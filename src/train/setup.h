// What planning and training have in common: the program and its plan.
#pragma once

#include <memory>
#include <optional>

#include "device/device.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"

namespace neap {

struct Setup {
  ModelSpec spec;
  std::unique_ptr<Device> device;
  Program program;
  const Policy* policy = nullptr;
  Plan plan;  // valid
  std::int64_t store_all_bytes = 0;
  std::int64_t min_bytes = 0;
  std::optional<std::int64_t> budget;
  Link link;  // what transfers are reckoned with
  double planning_ms = 0;
};

// Another plan within the same budget, from what was measured. The state stays where it is.
void plan_again(Setup& setup);

// UserError for wrong options. A plan above the budget is returned like any other: the caller decides.
Setup make_setup(std::shared_ptr<const Model> model, const TrainOptions& options);

PlanReport report_of(const Setup& setup);

// "134 MiB of state, 33 MiB kept for backward, ...; layer 'conv1' sets it": why a plan needs what it needs.
std::string explain_peak(const PlanReport& report);

}  // namespace neap
