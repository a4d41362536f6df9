#include "pool/pool_walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"
#include "plan/pack.h"
#include "plan/transfers.h"
#include "plan/views.h"
#include "pool/pool_finish.h"
#include "pool/pool_lives.h"
#include "pool/pool_wishes.h"

namespace neap {
namespace {

class Walk {
 public:
  explicit Walk(const WalkInput& in)
      : in_(in),
        views_(find_views(in.graph)),
        alignment_(in.may_spill ? kPage : kAlignment),
        lives_(lives_of(in, views_)),
        before_(in.schedule.calls.size()),
        after_(in.schedule.calls.size()) {
    base_ = place_state(in_, alignment_, lives_, plan_);
    start_clock();
    if (!in_.may_spill) wishes_ = wishes_of(in_, alignment_);  // under pressure they would be in each other's way
  }

  WalkResult run() {
    if (in_.settings.capacity <= base_) return {.reason = "the state alone fills the arena"};
    pool_.emplace(in_.settings.capacity - base_, alignment_);
    for (std::size_t c = 0; c < in_.schedule.calls.size() && result_.reason.empty(); ++c) step(c);
    if (!result_.reason.empty()) return std::move(result_);
    assemble();
    count_misses();
    return std::move(result_);
  }

 private:
  const Call& call(std::size_t c) const { return in_.schedule.calls[c]; }
  const Instance& instance(std::int32_t i) const { return in_.schedule.instances[static_cast<std::size_t>(i)]; }
  std::size_t block_of(std::int32_t i) const {
    return static_cast<std::size_t>(in_.storage.placements[static_cast<std::size_t>(i)].block);
  }
  OwnerId owner(std::size_t block) const { return {static_cast<std::uint32_t>(block)}; }
  OwnerId workspace_owner() const { return owner(lives_.size()); }

  std::int64_t workspace_bytes(std::size_t c) const { return workspace_of(in_.costs, call(c)); }

  void start_clock() {
    clock_.push_back(0);
    for (const Call& c : in_.schedule.calls) {
      clock_.push_back(clock_.back() + (c.node.index < in_.costs.ms.size() ? in_.costs.ms[c.node.index] : 0));
    }
  }

  void fail(std::size_t c) {
    if (!result_.reason.empty()) return;
    result_.reason =
        fmt::format("the pool of {} has no place for {} at '{}'", human_bytes(in_.settings.capacity - base_),
                    human_bytes(stuck_bytes_), in_.graph.at(call(c).node).name);
  }

  void stick(std::int64_t bytes) {
    is_stuck_ = true;
    stuck_bytes_ = bytes;
  }

  void step(std::size_t c) {
    if (in_.storage.elided[c]) return;
    pool_->advance(in_.events.tick_of[c]);
    for (; next_event_ < in_.events.events.size() && in_.events.events[next_event_].tick == 0; ++next_event_) {
      const std::uint32_t b = in_.events.blocks[next_event_];
      if (in_.storage.blocks[b].kind == BlockKind::kInput && !open(b, c)) return fail(c);
    }
    for (const Grant& grant : pool_->reassign(horizon())) begin_fetch(grant, c);
    const std::vector<std::size_t> touched = gather_touched(c);
    std::optional<BlockHandle> workspace = prepare(touched, c);
    if (is_stuck_ && in_.may_spill) {
      clear_all(touched, c);
      workspace = prepare(touched, c);
    }
    is_compact_ = false;
    if (is_stuck_) return fail(c);
    if (!result_.reason.empty()) return;
    emit(c);
    for (const std::size_t b : touched) leave(b);
    if (workspace) pool_->drop(*workspace);
    if (is_first_) forget_host();
  }

  // Brings and holds all that the call touches.
  std::optional<BlockHandle> prepare(const std::vector<std::size_t>& touched, std::size_t c) {
    is_stuck_ = false;
    for (const std::size_t b : touched) {
      if (is_pooled(b) && is_present(b)) pool_->lock(lives_[b].handle);
    }
    for (const std::size_t b : touched) bring(b, c);
    return take_workspace(c);
  }

  // What the call holds lies so scattered that the rest finds no place: everything leaves, and what is needed comes
  // back in one piece.
  void clear_all(const std::vector<std::size_t>& touched, std::size_t c) {
    for (const std::size_t b : touched) {
      Life& life = lives_[b];
      if (!is_pooled(b) || !is_present(b)) continue;
      if (pool_->at(life.handle).locks > 0) pool_->unlock(life.handle);
      const bool is_unwritten = life.next == 0 && in_.storage.blocks[b].kind != BlockKind::kInput;
      if (!is_unwritten) continue;
      pool_->drop(life.handle);
      life.is = Whereabouts::kNowhere;
    }
    while (const auto eviction = pool_->spill_oldest_activation()) leave_early(*eviction, c);
    is_compact_ = true;
  }

  bool is_pooled(std::size_t b) const { return lives_[b].event >= 0; }
  bool is_present(std::size_t b) const {
    return lives_[b].is == Whereabouts::kHere || lives_[b].is == Whereabouts::kComing;
  }

  std::vector<std::size_t> gather_touched(std::size_t c) const {
    std::vector<std::size_t> out;
    for (const auto* list : {&call(c).inputs, &call(c).outputs}) {
      for (const std::int32_t i : *list) {
        if (i == kAbsent) continue;
        const std::size_t b = block_of(i);
        if (std::find(out.begin(), out.end(), b) == out.end()) out.push_back(b);
      }
    }
    return out;
  }

  // Fetches begin so early that they are done in time: twice what the largest transfer so far takes.
  Tick horizon() const {
    constexpr Tick kLeast = 3;
    const double lead = 2 * transfer_ms(in_.settings.link, Action::kFetchBegin, largest_slot_);
    const Tick now = pool_->now();
    if (lead <= 0) return now + kLeast;
    const auto c = static_cast<std::size_t>(
        std::lower_bound(in_.events.tick_of.begin(), in_.events.tick_of.end(), now) - in_.events.tick_of.begin());
    const auto at = std::upper_bound(clock_.begin() + static_cast<std::ptrdiff_t>(c), clock_.end(), clock_[c] + lead);
    const auto until = std::min<std::size_t>(static_cast<std::size_t>(at - clock_.begin()), clock_.size() - 1);
    return std::max(now + kLeast, in_.events.tick_of[until]);
  }

  // What is predicted from now on.
  Lifetime lifespan(const Life& life) const {
    const auto e = static_cast<std::size_t>(life.event);
    const double passed = static_cast<double>(pool_->now()) - static_cast<double>(in_.events.events[e].tick);
    const Lifetime& whole = in_.lifetimes[e];
    return {whole.p10 - passed, whole.p50 - passed, whole.p90 - passed};
  }

  PoolRequest request(std::size_t b) const {
    const Life& life = lives_[b];
    const bool is_hosts = in_.storage.blocks[b].kind == BlockKind::kInput;
    const auto left = static_cast<int>(life.calls.size() - life.next);
    return {.owner = owner(b),
            .bytes = in_.storage.blocks[b].bytes,
            .lifespan = lifespan(life),
            .references = left + (life.is_result ? 1 : 0) + (is_hosts ? 1 : 0),
            .leave = life.leave,
            .lies_low = is_compact_ || (in_.may_spill && life.leave == Leave::kNever),
            .wish = wishes_.events.empty() ? -1 : wishes_.events[static_cast<std::size_t>(life.event)]};
  }

  BlockId add_block(std::size_t b, const Grant& grant) {
    const BlockId id{static_cast<std::uint32_t>(plan_.blocks.size())};
    Block block = in_.storage.blocks[b];
    block.bytes = align_up(block.bytes, alignment_);
    block.offset = base_ + grant.offset;
    plan_.blocks.push_back(block);
    return id;
  }

  bool open(std::size_t b, std::size_t c) {
    const auto grant = pool_->allocate_activation_memory(request(b));
    if (!grant) {
      stick(in_.storage.blocks[b].bytes);
      return false;
    }
    for (const Eviction& e : grant->evictions) leave_early(e, c);
    Life& life = lives_[b];
    life.handle = grant->block;
    life.is = Whereabouts::kHere;
    life.block = add_block(b, *grant);
    if (in_.storage.blocks[b].kind == BlockKind::kInput) hosts_.push_back(b);
    return true;
  }

  // Sees to it that a block which the call touches is here, and held.
  void bring(std::size_t b, std::size_t c) {
    Life& life = lives_[b];
    if (!is_pooled(b) || is_stuck_) return;
    if (life.is == Whereabouts::kNowhere) {
      if (open(b, c)) pool_->lock(life.handle);
      return;
    }
    if (life.is == Whereabouts::kAway) {
      pool_->stop_waiting(owner(b));
      const auto grant = pool_->allocate_activation_memory(request(b));
      if (!grant) return stick(in_.storage.blocks[b].bytes);
      for (const Eviction& e : grant->evictions) leave_early(e, c);
      begin_fetch(*grant, c);
      pool_->lock(life.handle);
    }
    if (life.is == Whereabouts::kComing) {
      before_[c].push_back(transfer(Action::kFetchWait, life));
      life.is = Whereabouts::kHere;
    }
  }

  Instruction transfer(Action action, const Life& life) const {
    const TensorId root = instance(life.instance).root;
    Instruction in{.action = action, .node = in_.graph.at(root).producer, .slot = {life.slot}};
    const bool is_out = action == Action::kSpillBegin || action == Action::kSpillWait;
    (is_out ? in.inputs : in.outputs).push_back({.block = life.block});
    return in;
  }

  void begin_fetch(const Grant& grant, std::size_t c) {
    Life& life = lives_[grant.owner.index];
    life.handle = grant.block;
    life.block = add_block(grant.owner.index, grant);
    life.is = Whereabouts::kComing;
    before_[c].push_back(transfer(Action::kFetchBegin, life));
  }

  // The pool has taken a block away. Its bytes went out right behind the last call that touched them, and are waited
  // for only now; where a copy is outside already, none has to go.
  void leave_early(const Eviction& eviction, std::size_t c) {
    Life& life = lives_[eviction.owner.index];
    if (!eviction.is_needed) {
      life.is = Whereabouts::kNowhere;
      return;
    }
    if (life.is == Whereabouts::kComing) {
      cancel_fetch(life);
    } else if (life.slot == kNoSlot) {
      life.slot = new_slot(life, c);
      after_[life.calls[life.next - 1]].push_back(transfer(Action::kSpillBegin, life));
      before_[c].push_back(transfer(Action::kSpillWait, life));
    }
    life.is = Whereabouts::kAway;
    pool_->wait_for_block(
        {.request = request(eviction.owner.index), .required = in_.events.tick_of[life.calls[life.next]]});
  }

  // It was to come back early, but its place is needed for something else.
  void cancel_fetch(const Life& life) {
    const auto is_it = [&](const Instruction& in) {
      return in.action == Action::kFetchBegin && in.outputs[0].block == life.block;
    };
    for (std::size_t c = life.calls[life.next]; c-- > 0;) {
      if (std::erase_if(before_[std::min(c, before_.size() - 1)], is_it) > 0) return;
    }
  }

  std::uint32_t new_slot(const Life& life, std::size_t c) {
    const TensorId root = instance(life.instance).root;
    const std::int64_t bytes = in_.graph.at(root).type.bytes();
    plan_.slots.push_back(bytes);
    plan_.slot_tensors.push_back(root);
    largest_slot_ = std::max(largest_slot_, bytes);
    outside_ += align_up(bytes, kPage);
    if (outside_ > in_.settings.spill_bytes && result_.reason.empty()) {
      result_.reason = fmt::format("the {} outside of the arena are used up at '{}'",
                                   human_bytes(in_.settings.spill_bytes), in_.graph.at(call(c).node).name);
    }
    return static_cast<std::uint32_t>(plan_.slots.size() - 1);
  }

  std::optional<BlockHandle> take_workspace(std::size_t c) {
    workspace_ = {};
    const std::int64_t bytes = workspace_bytes(c);
    if (bytes == 0 || is_stuck_) return std::nullopt;
    const auto grant =
        pool_->allocate_activation_memory({.owner = workspace_owner(),
                                           .bytes = bytes,
                                           .lifespan = {1, 1, 1},
                                           .references = 1,
                                           .lies_low = is_compact_,
                                           .wish = wishes_.workspaces.empty() ? -1 : wishes_.workspaces[c]});
    if (!grant) {
      stick(bytes);
      return std::nullopt;
    }
    for (const Eviction& e : grant->evictions) leave_early(e, c);
    workspace_ = {static_cast<std::uint32_t>(plan_.blocks.size())};
    plan_.blocks.push_back(
        {.kind = BlockKind::kWorkspace, .bytes = align_up(bytes, alignment_), .offset = base_ + grant->offset});
    return grant->block;
  }

  Operand operand(std::int32_t i, TensorId as) const {
    if (i == kAbsent) return {};
    const Placement& p = in_.storage.placements[static_cast<std::size_t>(i)];
    return {.block = lives_[static_cast<std::size_t>(p.block)].block, .offset = p.offset + views_[as.index].offset};
  }

  void emit(std::size_t c) {
    const Node& node = in_.graph.at(call(c).node);
    Instruction in{.action = call(c).action, .node = call(c).node};
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      in.inputs.push_back(operand(call(c).inputs[i], node.inputs[i]));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::int32_t output = call(c).outputs[i];
      in.outputs.push_back(operand(output, node.outputs[i]));
      if (output == kAbsent) continue;
      Life& life = lives_[block_of(output)];
      life.instance = output;
      life.slot = kNoSlot;
    }
    in.workspace.block = workspace_;
    calls_.emplace_back(c, std::move(in));
  }

  void leave(std::size_t b) {
    Life& life = lives_[b];
    if (!is_pooled(b)) return;
    pool_->unlock(life.handle);
    pool_->release(life.handle);
    if (++life.next == life.calls.size() && !life.is_result) life.is = Whereabouts::kNowhere;
  }

  // The host's own reference to the inputs: they are there before the first call.
  void forget_host() {
    is_first_ = false;
    for (const std::size_t b : hosts_) pool_->release(lives_[b].handle);
  }

  void assemble() {
    for (auto& [c, in] : calls_) {
      for (Instruction& t : before_[c]) plan_.instructions.push_back(std::move(t));
      plan_.instructions.push_back(std::move(in));
      for (Instruction& t : after_[c]) plan_.instructions.push_back(std::move(t));
    }
    note_homes();
    set_lifetimes(plan_, in_.graph);
    drop_unused_blocks(plan_);
    std::vector<PackItem> items;
    for (const Block& b : plan_.blocks) {
      if (b.offset >= base_) items.push_back({b.lower, b.upper, b.bytes});
      plan_.peak_bytes = std::max(plan_.peak_bytes, b.offset + b.bytes);
    }
    plan_.lower_bound_bytes = base_ + max_live(items);
    plan_.peak_bytes = std::max(plan_.peak_bytes, base_);
    for (const Instruction& in : plan_.instructions) {
      if (in.action == Action::kSpillBegin) result_.stats.spilled_bytes += plan_.slots[in.slot.index];
      if (in.action == Action::kFetchBegin) result_.stats.fetched_bytes += plan_.slots[in.slot.index];
    }
    result_.stats.peak_bytes = plan_.peak_bytes;
    result_.stats.shared = pool_->counters().shared;
    result_.plan = std::move(plan_);
  }

  void note_homes() {
    for (std::uint32_t i = 0; i < in_.graph.tensors.size(); ++i) {
      if (in_.graph.tensors[i].producer) continue;
      const std::int32_t at = in_.schedule.current[i];
      plan_.homes.emplace_back(TensorId{i}, operand(at, {i}));
    }
    for (const auto& [label, id] : in_.graph.outputs) {
      plan_.homes.emplace_back(id, operand(in_.schedule.current[views_[id.index].root.index], id));
    }
  }

  void count_misses() {
    for (std::size_t e = 0; e < in_.lifetimes.size(); ++e) {
      const auto real = static_cast<double>(in_.events.lifespans[e]);
      if (!(in_.lifetimes[e].p90 > real - 1)) ++result_.stats.expired_early;
      if (in_.lifetimes[e].p10 >= real + 1) ++result_.stats.expired_late;
    }
  }

  const WalkInput& in_;
  std::vector<Window> views_;
  std::int64_t alignment_;
  std::int64_t base_ = 0;  // the pool's begin in the arena
  std::vector<Life> lives_;
  std::optional<Pool> pool_;
  PoolWishes wishes_;
  std::vector<double> clock_;                     // when each call starts, in ms
  std::vector<std::vector<Instruction>> before_;  // transfers in front of each call
  std::vector<std::vector<Instruction>> after_;
  std::vector<std::pair<std::size_t, Instruction>> calls_;
  std::vector<std::size_t> hosts_;  // inputs
  std::size_t next_event_ = 0;
  bool is_first_ = true;
  bool is_stuck_ = false;  // something that the call needs finds no place
  bool is_compact_ = false;
  std::int64_t stuck_bytes_ = 0;
  BlockId workspace_;
  std::int64_t largest_slot_ = 0;
  std::int64_t outside_ = 0;
  Plan plan_;
  WalkResult result_;
};

}  // namespace

WalkResult walk_with_pool(const WalkInput& input) { return Walk(input).run(); }

}  // namespace neap
