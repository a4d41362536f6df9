// Where slots lie in a file: two that are never in use at the same time may share a place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pool/spill_store.h"

namespace neap {

struct SlotPlaces {
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;  // of the file
};

// First fit in the order of time. `lives` may be empty: then all slots are in use all the time.
SlotPlaces place_slots(std::span<const std::int64_t> bytes, std::span<const SlotLife> lives);

}  // namespace neap
