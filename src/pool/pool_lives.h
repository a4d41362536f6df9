// What a walk with a pool knows of the storage's blocks: where each is, and which calls touch it.
#pragma once

#include <vector>

#include "plan/views.h"
#include "pool/pool.h"
#include "pool/pool_walk.h"

namespace neap {

inline constexpr std::uint32_t kNoSlot = ~0U;

enum class Whereabouts : std::uint8_t { kNowhere, kHere, kComing, kAway };

struct Life {
  Whereabouts is = Whereabouts::kNowhere;
  BlockHandle handle;
  BlockId block;                    // in the plan, while it is here or coming
  std::vector<std::size_t> calls;   // that touch it, in order
  std::size_t next = 0;             // of `calls`
  std::int32_t instance = kAbsent;  // that lies in it
  std::uint32_t slot = kNoSlot;     // outside of the arena, where a copy of that instance lies
  std::int64_t event = -1;
  bool is_result = false;
  Leave leave = Leave::kNever;
};

// Before the first call: one life a block, with the accesses to come; none has a place yet.
std::vector<Life> lives_of(const WalkInput& in, const std::vector<Window>& views);

// The state's blocks become those of `plan`. Where the pool begins in the arena, behind them.
std::int64_t place_state(const WalkInput& in, std::int64_t alignment, std::vector<Life>& lives, Plan& plan);

}  // namespace neap
