// From times of instructions to a row a layer.
#pragma once

#include <span>
#include <vector>

#include "device/activity.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "runtime/prepare.h"

namespace neap {

// `ms` has one entry an instruction of the plan.
std::vector<LayerReport> profile_by_layer(const Program& program, const Plan& plan, const std::vector<double>& ms,
                                          DeviceKind device);

// What each call ran, kernel by kernel; tags are instructions of the plan.
std::vector<KernelReport> kernels_of(const Program& program, const Plan& plan, std::span<const Activity> activities);

}  // namespace neap
