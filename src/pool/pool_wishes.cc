#include "pool/pool_wishes.h"

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "plan/pack.h"

namespace neap {
namespace {

constexpr std::int64_t kSteps = 200'000;  // of the packer: about a millisecond

// At least one tick, at most the rest of the step; not a number counts as nothing known.
Tick span_of(const Lifetime& lifetime, Tick rest) {
  const double ticks = lifetime.p50 > 1 ? std::ceil(lifetime.p50) : 1;
  return static_cast<Tick>(std::clamp(ticks, 1.0, std::max(1.0, static_cast<double>(rest))));
}

}  // namespace

std::int64_t workspace_of(const Costs& costs, const Call& call) {
  return call.node.index < costs.workspace.size() ? costs.workspace[call.node.index] : 0;
}

PoolWishes wishes_of(const WalkInput& in, std::int64_t alignment) {
  const Tick end = in.events.tick_of.back();
  std::vector<PackItem> items;
  for (std::size_t e = 0; e < in.lifetimes.size(); ++e) {
    const AllocationEvent& event = in.events.events[e];
    const Tick span = span_of(in.lifetimes[e], end - event.tick);
    items.push_back({event.tick, event.tick + span, align_up(event.bytes, alignment)});
  }
  std::vector<std::size_t> callers;
  for (std::size_t c = 0; c < in.schedule.calls.size(); ++c) {
    const std::int64_t bytes = workspace_of(in.costs, in.schedule.calls[c]);
    if (in.storage.elided[c] || bytes == 0) continue;
    const Tick tick = in.events.tick_of[c];
    items.push_back({tick, tick + 1, align_up(bytes, alignment)});
    callers.push_back(c);
  }
  const Packing packing = pack({.items = items, .alignment = alignment}, {.steps = 0, .improve_steps = kSteps});
  const auto first_workspace = packing.offsets.begin() + static_cast<std::ptrdiff_t>(in.lifetimes.size());
  PoolWishes out{.events = {packing.offsets.begin(), first_workspace},
                 .workspaces = std::vector<std::int64_t>(in.schedule.calls.size(), -1)};
  for (std::size_t i = 0; i < callers.size(); ++i) {
    out.workspaces[callers[i]] = first_workspace[static_cast<std::ptrdiff_t>(i)];
  }
  return out;
}

}  // namespace neap
