// Learning-rate schedules: a function of the step alone, so that a resumed run continues exactly.
#pragma once

#include "neap/train.h"

namespace neap {

void check(const ScheduleOptions& options);

// In step `step` (the first is 1) of `steps`.
double learning_rate(double base, std::int64_t step, std::int64_t steps, const ScheduleOptions& options);

// "cosine", "cosine:warmup=100,floor=0.1", "step:every=500,factor=0.5"
ScheduleOptions parse_schedule(std::string_view text);

}  // namespace neap
