#include "pool/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/error.h"

namespace neap {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What a predictor says may be anything: not a number counts as nothing known, which is no time at all.
double ticks_of(double predicted) { return predicted > 0 ? predicted : 0; }

Lifetime shortened(const Lifetime& lifespan, Tick by) {
  const auto ticks = static_cast<double>(by);
  return {lifespan.p10 - ticks, lifespan.p50 - ticks, lifespan.p90 - ticks};
}

// How badly two ends go together: 0 at the same time, towards 1 the farther apart, in relation to how far off they are.
double mismatch(double a, double b, double now) {
  if (a == b) return 0;
  const double far = std::max({a - now, b - now, 1.0});
  return std::isinf(far) ? 1 : std::min(1.0, std::abs(a - b) / far);
}

}  // namespace

Pool::Pool(std::int64_t capacity, std::int64_t alignment)
    : capacity_(capacity / alignment * alignment), alignment_(alignment) {
  if (capacity_ <= 0) throw UserError(fmt::format("a memory pool of {} bytes holds nothing", capacity));
}

PoolBlock& Pool::get(BlockHandle block) {
  if (!is_current(block)) {
    throw InternalError(fmt::format("block {} of generation {} was given on", block.slot, block.generation));
  }
  return slots_[block.slot];
}

bool Pool::is_current(BlockHandle block) const {
  return block.slot < slots_.size() && slots_[block.slot].owner && slots_[block.slot].generation == block.generation;
}

double Pool::remaining(const PoolBlock& block) const { return std::max(0.0, block.ends - static_cast<double>(now_)); }

void Pool::advance(Tick now) {
  require(now >= now_, "time does not go back");
  now_ = now;
  std::erase_if(idle_, [&](std::uint32_t slot) {
    const bool has_expired = slots_[slot].expires <= static_cast<double>(now_);
    if (has_expired) remove(slot);
    return has_expired;
  });
}

void Pool::remove(std::uint32_t slot) {
  PoolBlock& block = slots_[slot];
  if (block.bytes > 0) {
    const auto at = std::lower_bound(placed_.begin(), placed_.end(), block.offset,
                                     [](const Placed& p, std::int64_t offset) { return p.begin < offset; });
    require(at != placed_.end() && at->slot == slot, "a block lies where it was put");
    placed_.erase(at);
  }
  block.owner = {};
  leaving_[slot] = false;
  unused_.push_back(slot);
}

template <class Visit>
void Pool::for_each_gap(std::int64_t limit, const Visit& visit) const {
  Gap gap{.begin = 0, .below = kNever};
  for (const Placed& p : placed_) {
    if (leaving_[p.slot]) continue;
    gap.end = std::min(p.begin, limit);
    gap.above = slots_[p.slot].ends;
    if (gap.end > gap.begin) visit(gap);
    gap = {.begin = p.end, .below = slots_[p.slot].ends};
  }
  gap.end = limit;
  gap.above = static_cast<double>(now_);
  if (gap.end > gap.begin) visit(gap);
}

bool Pool::is_free(std::int64_t begin, std::int64_t end) const {
  auto at = std::lower_bound(placed_.begin(), placed_.end(), begin,
                             [](const Placed& p, std::int64_t offset) { return p.end <= offset; });
  for (; at != placed_.end() && at->begin < end; ++at) {
    if (!leaving_[at->slot]) return false;
  }
  return end <= capacity_;
}

std::optional<std::int64_t> Pool::find_place(std::int64_t bytes, double ends, std::int64_t limit) const {
  const auto now = static_cast<double>(now_);
  std::optional<std::int64_t> best;
  double best_cost = kNever;
  for_each_gap(limit, [&](const Gap& gap) {
    const std::int64_t left = gap.end - gap.begin - bytes;
    if (left < 0) return;
    const double waste = static_cast<double>(left) / static_cast<double>(gap.end - gap.begin);
    const double low = waste + mismatch(ends, gap.below, now);
    const double high = waste + mismatch(ends, gap.above, now);
    const double cost = std::min(low, high);
    if (cost >= best_cost) return;
    best_cost = cost;
    best = low <= high ? gap.begin : gap.end - bytes;
  });
  return best;
}

std::optional<std::int64_t> Pool::find_available_block(std::int64_t bytes, const Lifetime& lifespan) const {
  const double ends = static_cast<double>(now_) + ticks_of(lifespan.p50);
  return find_place(align_up(bytes, alignment_), ends, counters_.peak_bytes);
}

std::optional<std::int64_t> Pool::find_lowest_place(std::int64_t bytes, std::int64_t limit) const {
  std::optional<std::int64_t> lowest;
  for_each_gap(limit, [&](const Gap& gap) {
    if (!lowest && gap.end - gap.begin >= bytes) lowest = gap.begin;
  });
  return lowest;
}

// On top of the highest block.
std::optional<std::int64_t> Pool::find_new_place(std::int64_t bytes) const {
  const std::int64_t top = placed_.empty() ? 0 : placed_.back().end;
  if (bytes > capacity_ - top) return std::nullopt;
  return top;
}

Grant Pool::place(const PoolRequest& request, std::int64_t offset) {
  std::uint32_t slot = 0;
  if (unused_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
    leaving_.push_back(false);
  } else {
    slot = unused_.back();
    unused_.pop_back();
  }
  const std::int64_t bytes = align_up(request.bytes, alignment_);
  PoolBlock& block = slots_[slot];
  block = {.owner = request.owner,
           .offset = offset,
           .bytes = bytes,
           .references = request.references,
           .leave = request.leave,
           .generation = block.generation + 1,
           .expires = static_cast<double>(now_) + std::floor(ticks_of(request.lifespan.p10)),
           .ends = static_cast<double>(now_) + ticks_of(request.lifespan.p50)};
  if (bytes > 0) {
    const auto at = std::lower_bound(placed_.begin(), placed_.end(), offset,
                                     [](const Placed& p, std::int64_t o) { return p.begin < o; });
    placed_.insert(at, {offset, offset + bytes, slot});
  }
  const bool is_new = offset + bytes > counters_.peak_bytes;
  ++(is_new ? counters_.fresh : counters_.shared);
  counters_.peak_bytes = std::max(counters_.peak_bytes, offset + bytes);
  return {.block = {slot, block.generation}, .owner = request.owner, .offset = offset, .is_new = is_new};
}

std::optional<Grant> Pool::allocate_without_spill(const PoolRequest& request) {
  require(static_cast<bool>(request.owner) && request.bytes >= 0 && request.references >= 0, "a request has an owner");
  const std::int64_t bytes = align_up(request.bytes, alignment_);
  if (bytes == 0) return place(request, 0);
  if (request.wish >= 0 && request.wish % alignment_ == 0 && is_free(request.wish, request.wish + bytes)) {
    return place(request, request.wish);
  }
  const auto available =
      request.lies_low ? find_lowest_place(bytes, counters_.peak_bytes) : find_available_block(bytes, request.lifespan);
  if (available) return place(request, *available);
  if (const auto fresh = find_new_place(bytes)) return place(request, *fresh);
  return std::nullopt;
}

std::optional<Grant> Pool::allocate_activation_memory(const PoolRequest& request) {
  if (auto grant = allocate_without_spill(request)) return grant;
  return allocate_by_eviction(request);
}

// The oldest leave one after the other, until what is free hangs together; those that turn out not to be in the way
// stay after all. What nobody refers to goes before anything that would have to be moved.
std::optional<Grant> Pool::allocate_by_eviction(const PoolRequest& request) {
  const std::int64_t bytes = align_up(request.bytes, alignment_);
  const double ends = static_cast<double>(now_) + ticks_of(request.lifespan.p50);
  std::vector<std::uint32_t> chosen = idle_;
  for (const std::uint32_t slot : idle_) leaving_[slot] = true;
  const auto find = [&] {
    return request.lies_low ? find_lowest_place(bytes, capacity_) : find_place(bytes, ends, capacity_);
  };
  std::optional<std::int64_t> offset = find();
  while (!offset) {
    const auto oldest = find_oldest_activation();
    if (!oldest) break;
    chosen.push_back(oldest->slot);
    leaving_[oldest->slot] = true;
    offset = find();
  }
  for (const std::uint32_t slot : chosen) leaving_[slot] = false;
  if (!offset) return std::nullopt;
  std::vector<Eviction> evictions = clear(*offset, *offset + bytes, chosen);
  Grant grant = place(request, *offset);
  grant.evictions = std::move(evictions);
  return grant;
}

std::vector<Eviction> Pool::clear(std::int64_t begin, std::int64_t end, const std::vector<std::uint32_t>& chosen) {
  std::vector<Eviction> out;
  for (const std::uint32_t slot : chosen) {
    const PoolBlock& block = slots_[slot];
    if (block.offset < end && begin < block.offset + block.bytes) out.push_back(evict(slot));
  }
  return out;
}

Eviction Pool::evict(std::uint32_t slot) {
  const PoolBlock& block = slots_[slot];
  const Eviction out{.block = {slot, block.generation}, .owner = block.owner, .is_needed = block.references > 0};
  ++(out.is_needed ? counters_.spilled : counters_.reclaimed);
  if (!out.is_needed) std::erase(idle_, slot);
  remove(slot);
  return out;
}

std::optional<BlockHandle> Pool::find_oldest_activation() const {
  std::optional<BlockHandle> oldest;
  std::pair<Leave, double> best{Leave::kNever, 0};
  for (const Placed& p : placed_) {
    const PoolBlock& block = slots_[p.slot];
    if (block.leave == Leave::kNever || block.locks > 0 || leaving_[p.slot]) continue;
    const std::pair<Leave, double> rank{block.leave, remaining(block)};
    if (rank <= best) continue;
    best = rank;
    oldest = {p.slot, block.generation};
  }
  return oldest;
}

std::optional<Eviction> Pool::spill_oldest_activation() {
  const auto oldest = find_oldest_activation();
  if (!oldest) return std::nullopt;
  return evict(oldest->slot);
}

void Pool::release(BlockHandle handle) {
  PoolBlock& block = get(handle);
  require(block.references > 0, "a block is released as often as it was referred to");
  if (--block.references > 0) return;
  if (block.expires <= static_cast<double>(now_)) {
    remove(handle.slot);
  } else {
    idle_.push_back(handle.slot);
  }
}

void Pool::unlock(BlockHandle handle) {
  PoolBlock& block = get(handle);
  require(block.locks > 0, "what is unlocked was locked");
  --block.locks;
}

void Pool::drop(BlockHandle handle) {
  get(handle);
  std::erase(idle_, handle.slot);
  remove(handle.slot);
}

void Pool::wait_for_block(Waiting waiting) {
  waiting.since = now_;
  const auto at = std::upper_bound(queue_.begin(), queue_.end(), waiting.required,
                                   [](Tick required, const Waiting& w) { return required < w.required; });
  queue_.insert(at, waiting);
}

void Pool::stop_waiting(OwnerId owner) {
  std::erase_if(queue_, [owner](const Waiting& w) { return w.request.owner == owner; });
}

std::vector<Grant> Pool::reassign(Tick until) {
  std::vector<Grant> out;
  std::size_t served = 0;
  for (; served < queue_.size() && queue_[served].required < until; ++served) {
    PoolRequest request = queue_[served].request;
    request.lifespan = shortened(request.lifespan, now_ - queue_[served].since);
    auto grant = allocate_without_spill(request);
    if (!grant) break;  // the earliest goes first: others do not take the space that it is short of
    out.push_back(std::move(*grant));
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(served));
  return out;
}

std::vector<BlockHandle> Pool::blocks() const {
  std::vector<BlockHandle> out;
  for (const Placed& p : placed_) out.push_back({p.slot, slots_[p.slot].generation});
  return out;
}

}  // namespace neap
