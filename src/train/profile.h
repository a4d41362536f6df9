// From times of instructions to a row a layer.
#pragma once

#include <vector>

#include "neap/train.h"
#include "plan/plan.h"
#include "runtime/prepare.h"

namespace neap {

// `ms` has one entry an instruction of the plan.
std::vector<LayerReport> profile_by_layer(const Program& program, const Plan& plan, const std::vector<double>& ms);

}  // namespace neap
