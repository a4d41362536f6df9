// First stage of planning: the order of the calls, with recomputation, and the instances of tensors that they use.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/views.h"

namespace neap {

// One stay of a tensor in memory. A tensor that is made again has two: one in forward, one in backward.
struct Instance {
  TensorId root;
  Tick lower = 0;  // the call that writes it (0 for what is there before the step)
  Tick upper = 0;  // one past the last call that reads it
  precision::Level level = precision::Level::kFp32;
};

inline constexpr std::int32_t kAbsent = -1;

struct Call {
  NodeId node;  // of a transfer or codec: the one that made the tensor, or for which a weight comes in
  Action action = Action::kRun;
  std::uint32_t slot = 0;  // of a transfer
  bool changes_state = false;
  std::vector<std::int32_t> inputs;   // instances; kAbsent: not given
  std::vector<std::int32_t> outputs;  // instances; kAbsent: not wanted
};

struct Schedule {
  std::vector<Call> calls;
  std::vector<Instance> instances;
  std::vector<std::int64_t> slots;     // bytes of each
  std::vector<TensorId> slot_tensors;  // what each is for
  std::vector<std::int32_t> current;   // per tensor: the instance that holds it at the end; kAbsent: none
};

Schedule make_schedule(const Graph& graph, const std::vector<Window>& views, const Decisions& decisions,
                       const Costs& costs);

// Whether a call belongs to backward: it is of its phase, or makes something again for it.
bool is_late(const Graph& graph, const Call& call);

// Puts calls before and behind those that are there: a list for each. The lists are used up.
void insert_calls(Schedule& schedule, std::vector<std::vector<Call>>& before, std::vector<std::vector<Call>>& behind);

// Of what a call takes, as the costs have it.
double ms_of(const Call& call, const Schedule& schedule, const Graph& graph, const Costs& costs);

// Forward nodes that are not run again: they read a state that is updated in parts, the first of which run early and
// would have to wait for them.
std::vector<bool> kept_from_parts(const Graph& graph, const std::vector<Window>& views);

// Tensors whose bytes a transfer can move: made by a node, whole, and not for the host.
bool can_leave(const Graph& graph, const std::vector<Window>& views, TensorId id);

// Those that a spill moves from forward to backward: made in forward.
bool can_spill(const Graph& graph, const std::vector<Window>& views, TensorId id);

// One a tensor: weights that can lie outside before the step and come in for their readers. Nothing changes them, the
// host does not read them, and something does.
std::vector<bool> find_streamable(const Graph& graph, const std::vector<Window>& views);

}  // namespace neap
