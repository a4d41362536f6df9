// Between scheduling and transfers: saved tensors with a level are encoded behind their last use in forward, their
// floats end there, and are decoded before backward reads them. What is spilled is the encoded form.
#pragma once

#include "plan/schedule.h"

namespace neap {

// Floats that forward makes, whole, and that the host does not read. Everything else is stored as it is.
bool can_encode(const Graph& graph, const std::vector<Window>& views, TensorId id);

void encode_saved(const Graph& graph, const Decisions& decisions, Schedule& schedule);

}  // namespace neap
