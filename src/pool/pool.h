// The temporal memory pool: blocks shared in time by what is predicted of their owners' lives. Pure logic: it says
// where things go and what must leave; moving bytes is somebody else's work. A prediction never frees anything: a block
// is given on only when it has expired and nobody refers to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "pool/predictor.h"

namespace neap {

using OwnerId = Id<struct OwnerTag>;  // an activation; its numbers are the caller's

// A block at one time of its life. Once the block is given on, the generation no longer fits.
struct BlockHandle {
  std::uint32_t slot = ~0U;
  std::uint64_t generation = 0;
  friend bool operator==(const BlockHandle&, const BlockHandle&) = default;
};

// Whether bytes may be moved out of the pool: gradients are touched again and again while they live, so only when no
// activation is left.
enum class Leave : std::uint8_t { kNever, kLast, kFirst };

struct PoolBlock {
  OwnerId owner;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int references = 0;  // accesses still to come
  int locks = 0;       // held by what runs now: not to be moved
  Leave leave = Leave::kNever;
  std::uint64_t generation = 0;
  double expires = 0;  // from this tick on it is available, if unreferenced
  double ends = 0;     // the tick at which it is expected to be gone
};

struct PoolRequest {
  OwnerId owner;
  std::int64_t bytes = 0;
  Lifetime lifespan;  // predicted, from now
  int references = 1;
  Leave leave = Leave::kNever;
  bool lies_low = false;  // as low as there is space, whatever lies beside it: for what cannot be moved out of the way
  // Where a packing of the predicted lives would put it, counted from the pool's begin; -1: no wish.
  std::int64_t wish = -1;
};

// A block that an allocation has taken from its owner.
struct Eviction {
  BlockHandle block;
  OwnerId owner;
  bool is_needed = false;  // the bytes must be kept elsewhere; else nobody will ask for them
};

struct Grant {
  BlockHandle block;
  OwnerId owner;
  std::int64_t offset = 0;
  bool is_new = false;              // from space that nobody has used yet
  std::vector<Eviction> evictions;  // in the order in which they were chosen
};

struct PoolCounters {
  std::int64_t peak_bytes = 0;  // highest end of any block so far
  std::int64_t shared = 0;      // grants from space that was used before
  std::int64_t fresh = 0;       // grants of new space
  std::int64_t reclaimed = 0;   // evictions of what nobody needed: it was predicted to live longer
  std::int64_t spilled = 0;     // evictions whose bytes are needed
};

class Pool {
 public:
  // Offsets run from 0 to `capacity` in multiples of `alignment`. UserError when the capacity is not positive.
  explicit Pool(std::int64_t capacity, std::int64_t alignment = kAlignment);

  // The clock. Blocks that have expired meanwhile, and to which nobody refers, become available.
  void advance(Tick now);
  Tick now() const { return now_; }

  // An available block of sufficient size that suits the lifespan; else a new one where there is space; else others
  // leave. None: not even with all gone that may go.
  std::optional<Grant> allocate_activation_memory(const PoolRequest& request);
  // The same as far as nobody has to leave.
  std::optional<Grant> allocate_without_spill(const PoolRequest& request);

  // Where available space of sufficient size lies whose neighbours are expected to be gone at about the same time, so
  // that it falls free in one piece.
  std::optional<std::int64_t> find_available_block(std::int64_t bytes, const Lifetime& lifespan) const;
  // Of those that may leave, the one with the longest remaining lifespan, as predicted; the first among equals.
  std::optional<BlockHandle> find_oldest_activation() const;
  // Takes that one's block from it.
  std::optional<Eviction> spill_oldest_activation();

  // One access less to come; the last one makes the block available, if it has expired.
  void release(BlockHandle block);
  void lock(BlockHandle block) { ++get(block).locks; }
  void unlock(BlockHandle block);
  void drop(BlockHandle block);                                                                 // whoever refers to it
  const PoolBlock& at(BlockHandle block) const { return const_cast<Pool*>(this)->get(block); }  // InternalError: stale
  bool is_current(BlockHandle block) const;

  // Activations that wait for a block, by earliest required execution.
  struct Waiting {
    PoolRequest request;
    Tick required = 0;
    Tick since = 0;  // set when it starts to wait: the request's lifespan counts from there
  };
  void wait_for_block(Waiting waiting);
  void stop_waiting(OwnerId owner);
  // Gives blocks to those that wait and are required before `until`, the earliest first, while space lasts.
  std::vector<Grant> reassign(Tick until);
  std::size_t waiting() const { return queue_.size(); }

  std::vector<BlockHandle> blocks() const;  // by offset
  const PoolCounters& counters() const { return counters_; }
  std::int64_t capacity() const { return capacity_; }

 private:
  // A block in its place; those without bytes have none.
  struct Placed {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint32_t slot = 0;
  };
  struct Gap {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    double below = 0;  // when the neighbour is expected to be gone
    double above = 0;
  };

  PoolBlock& get(BlockHandle block);
  double remaining(const PoolBlock& block) const;  // ticks, as predicted
  void remove(std::uint32_t slot);
  // Space between blocks, those that are leaving left out, up to `limit`.
  template <class Visit>
  void for_each_gap(std::int64_t limit, const Visit& visit) const;
  bool is_free(std::int64_t begin, std::int64_t end) const;
  std::optional<std::int64_t> find_place(std::int64_t bytes, double ends, std::int64_t limit) const;
  std::optional<std::int64_t> find_lowest_place(std::int64_t bytes, std::int64_t limit) const;
  std::optional<std::int64_t> find_new_place(std::int64_t bytes) const;
  Grant place(const PoolRequest& request, std::int64_t offset);
  std::optional<Grant> allocate_by_eviction(const PoolRequest& request);
  std::vector<Eviction> clear(std::int64_t begin, std::int64_t end, const std::vector<std::uint32_t>& chosen);
  Eviction evict(std::uint32_t slot);

  std::int64_t capacity_;
  std::int64_t alignment_;
  Tick now_ = 0;
  std::vector<PoolBlock> slots_;
  std::vector<std::uint32_t> unused_;  // slots without a block
  std::vector<Placed> placed_;         // by offset
  std::vector<bool> leaving_;          // per slot: counts as free while room is sought
  std::vector<std::uint32_t> idle_;    // slots that nobody refers to, but that have not expired
  std::vector<Waiting> queue_;         // by required, then by arrival
  PoolCounters counters_;
};

}  // namespace neap
