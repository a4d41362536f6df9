// Between scheduling and placing transfers: takes spilled tensors out of the schedule's long wait and brings them back.
#pragma once

#include "plan/schedule.h"

namespace neap {

// Each tensor that `decisions` spill goes out behind its last use in forward and comes in before its first use in
// backward, every wait right behind its begin. One that backward does not read, or makes again, stays as it is. With
// `every_wait_above` it goes out before its first long wait, be that within forward or backward, and comes in behind
// each. A weight is outside already: it comes in before its first use and behind each long wait.
void spill_saved(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions, Schedule& schedule);

}  // namespace neap
