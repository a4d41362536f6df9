// Checks a packing, slowly and obviously. Shares no code with pack().
#pragma once

#include <string>

#include "plan/pack.h"

namespace neap {

// Empty if every item has an aligned offset in [0, height], no two that meet in time meet in space, the height is the
// highest end, and `fits` says whether it is within the capacity; else the first thing that is wrong.
std::string find_fault(const PackProblem& problem, const Packing& packing);

}  // namespace neap
