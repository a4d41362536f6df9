#include "pool/pool_lives.h"

#include "core/bytes.h"
#include "graph/op.h"

namespace neap {
namespace {

std::size_t block_of(const WalkInput& in, std::int32_t instance) {
  return static_cast<std::size_t>(in.storage.placements[static_cast<std::size_t>(instance)].block);
}

void note_calls(const WalkInput& in, std::vector<Life>& lives) {
  for (std::size_t c = 0; c < in.schedule.calls.size(); ++c) {
    if (in.storage.elided[c]) continue;
    const Call& call = in.schedule.calls[c];
    for (const auto* list : {&call.inputs, &call.outputs}) {
      for (const std::int32_t i : *list) {
        if (i == kAbsent) continue;
        std::vector<std::size_t>& calls = lives[block_of(in, i)].calls;
        if (calls.empty() || calls.back() != c) calls.push_back(c);
      }
    }
  }
}

// Parts of a whole come and go one by one; what the host reads or writes must lie where it expects it.
void say_who_may_leave(const WalkInput& in, std::vector<Life>& lives) {
  std::vector<bool> has_parts(lives.size());
  for (const Placement& p : in.storage.placements) {
    if (p.block >= 0 && p.offset != 0) has_parts[static_cast<std::size_t>(p.block)] = true;
  }
  for (std::size_t e = 0; e < in.events.blocks.size(); ++e) {
    const std::uint32_t b = in.events.blocks[e];
    Life& life = lives[b];
    life.event = static_cast<std::int64_t>(e);
    const BlockKind kind = in.storage.blocks[b].kind;
    if (!in.may_spill || has_parts[b] || life.is_result || kind == BlockKind::kInput) continue;
    life.leave = kind == BlockKind::kGradient ? Leave::kLast : Leave::kFirst;
  }
}

}  // namespace

std::vector<Life> lives_of(const WalkInput& in, const std::vector<Window>& views) {
  std::vector<Life> lives(in.storage.blocks.size());
  note_calls(in, lives);
  for (const auto& [label, id] : in.graph.outputs) {
    lives[block_of(in, in.schedule.current[views[id.index].root.index])].is_result = true;
  }
  say_who_may_leave(in, lives);
  return lives;
}

std::int64_t place_state(const WalkInput& in, std::int64_t alignment, std::vector<Life>& lives, Plan& plan) {
  const StateLayout* layout = in.settings.layout;
  if (layout != nullptr) plan.state_bytes = layout->bytes;
  std::vector<std::size_t> loose;  // state that another plan does not have
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Block& block = in.storage.blocks[b];
    if (block.kind != BlockKind::kState) continue;
    lives[b].is = Whereabouts::kHere;
    lives[b].block = {static_cast<std::uint32_t>(plan.blocks.size())};
    plan.blocks.push_back(block);
    if (layout == nullptr) {
      plan.blocks.back().offset = plan.state_bytes;
      plan.state_bytes += block.bytes;
      continue;
    }
    const auto at = layout->offsets.find(in.graph.at(block.tensor).name);
    if (at != layout->offsets.end()) {
      plan.blocks.back().offset = at->second;
    } else {
      loose.push_back(plan.blocks.size() - 1);
    }
  }
  std::int64_t base = align_up(plan.state_bytes, alignment);
  for (const std::size_t b : loose) {
    plan.blocks[b].bytes = align_up(plan.blocks[b].bytes, alignment);
    plan.blocks[b].offset = base;
    base += plan.blocks[b].bytes;
  }
  return base;
}

}  // namespace neap
