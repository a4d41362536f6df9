// Events taken together by layer: one lifetime for all that a layer asks for at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pool/predictor.h"

namespace neap {

struct LayerGroups {
  std::vector<AllocationEvent> events;  // one a group: the first event's tick, all their bytes
  std::vector<std::size_t> group_of;    // one an event
};

// A group is an unbroken row of events of one layer and phase.
LayerGroups group_by_layer(std::span<const AllocationEvent> step);

// A group lives until the last of its events is over.
std::vector<Tick> group_lifespans(const LayerGroups& groups, std::span<const AllocationEvent> step,
                                  std::span<const Tick> lifespans);

// The lifetimes of the events from those of the groups: all end with their group.
void spread_to_events(const LayerGroups& groups, std::span<const AllocationEvent> step, std::span<const Lifetime> of,
                      std::span<Lifetime> out);

}  // namespace neap
