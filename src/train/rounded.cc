#include "train/rounded.h"

#include <algorithm>

#include "plan/rounding.h"
#include "policy/storable.h"
#include "runtime/trial.h"

namespace neap {

std::int64_t Rounded::bytes() const {
  return static_cast<std::int64_t>(levels.of.size() * sizeof(precision::Level) + trials.size() * sizeof(TensorId));
}

std::int64_t own_bytes(const Plan& plan) {
  std::size_t out = plan.blocks.size() * sizeof(Block) + plan.instructions.size() * sizeof(Instruction);
  for (const Instruction& in : plan.instructions) out += (in.inputs.size() + in.outputs.size()) * sizeof(Operand);
  out += plan.slots.size() * (sizeof(std::int64_t) + sizeof(TensorId));
  out += plan.homes.size() * sizeof(plan.homes[0]);
  return static_cast<std::int64_t>(out);
}

Rounded rounded_by(const Plan& plan, const Graph& graph, const StoredLevels& allowed) {
  Rounded out{.levels = settled_levels(plan, graph, allowed), .key = rounding_key(plan, graph), .trials = {}};
  for (const Storable& s : find_storable(graph)) {
    if (find_trial(plan, graph, s.id)) out.trials.push_back(s.id);
  }
  return out;
}

bool rounds_alike(const Plan& plan, const Graph& graph, const Rounded& rounded) {
  const auto has_room = [&](TensorId id) { return find_trial(plan, graph, id).has_value(); };
  return rounding_key(plan, graph) == rounded.key && std::ranges::all_of(rounded.trials, has_room);
}

}  // namespace neap
