#include "policy/lifetime/groups.h"

#include <algorithm>

#include "core/random.h"
#include "neap/error.h"

namespace neap {

LayerGroups group_by_layer(std::span<const AllocationEvent> step) {
  LayerGroups out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const AllocationEvent& e = step[i];
    const bool goes_on = i > 0 && step[i - 1].layer == e.layer && step[i - 1].phase == e.phase;
    if (goes_on) {
      out.events.back().bytes += e.bytes;
    } else {
      out.events.push_back(e);
      out.events.back().site = static_cast<std::uint32_t>(mix(e.layer, e.phase));
    }
    out.group_of.push_back(out.events.size() - 1);
  }
  return out;
}

std::vector<Tick> group_lifespans(const LayerGroups& groups, std::span<const AllocationEvent> step,
                                  std::span<const Tick> lifespans) {
  require(step.size() == lifespans.size() && step.size() == groups.group_of.size(), "one lifespan an event");
  std::vector<Tick> out(groups.events.size(), 1);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const std::size_t g = groups.group_of[i];
    out[g] = std::max(out[g], step[i].tick + lifespans[i] - groups.events[g].tick);
  }
  return out;
}

void spread_to_events(const LayerGroups& groups, std::span<const AllocationEvent> step, std::span<const Lifetime> of,
                      std::span<Lifetime> out) {
  for (std::size_t i = 0; i < step.size(); ++i) {
    const std::size_t g = groups.group_of[i];
    const double passed = step[i].tick - groups.events[g].tick;
    const auto rest = [passed](double ticks) { return std::max(1.0, ticks - passed); };
    out[i] = {.p10 = rest(of[g].p10), .p50 = rest(of[g].p50), .p90 = rest(of[g].p90)};
  }
}

}  // namespace neap
