// Where tensors go that leave the arena: host RAM of a given size first, then an SSD. Transfers run beside the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pool/faults.h"

namespace neap {

// When a step uses a slot, in the order of the step: from its first write to its last read.
struct SlotLife {
  std::uint32_t begin = 0;
  std::uint32_t end = UINT32_MAX;
};

struct SpillOptions {
  std::string folder;               // for the file; empty: the system's folder for temporary files
  std::int64_t host_ram_bytes = 0;  // of the tier above the file
  // Two copies of everything that goes to the file: for plans whose step cannot be run again.
  bool mirror = false;
  // Slots of the file that are never in use at the same time share a place. Empty: all are, always.
  std::vector<SlotLife> lives;
  // Where the tensors lie that come and go; pinned where the system lets us, so it stays mapped as it is while the
  // store lives. May be empty.
  std::span<std::byte> memory;
  // For tests: the file is no faster than this, each way; 0: as fast as it is.
  double write_bytes_per_s = 0;
  double read_bytes_per_s = 0;
  double patience_s = 60;               // of insist()
  std::shared_ptr<SpillFaults> faults;  // null: none
};

// A transfer that failed for good. The step can be run again from its inputs, if it has changed nothing yet.
struct SpillLost {
  std::string what;
  bool is_write = false;
  std::int64_t room_bytes = -1;  // of a disk that is full: the file takes so much and no more
};

struct SpillCounters {
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;
  double write_ms = 0;  // that the channel was busy with
  double read_ms = 0;
  double stalled_ms = 0;        // that calls waited
  std::int64_t ram_bytes = 0;   // held by the tier in RAM
  std::int64_t file_bytes = 0;  // held by the file
};

// The last transfer of a slot, one way. Nanoseconds of the steady clock.
struct TransferTime {
  std::int64_t asked_ns = 0;
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
  std::int64_t stalled_ns = 0;  // that its wait held up calls
};

struct SlotTimes {
  TransferTime write;
  TransferTime read;
  bool in_ram = false;
};

// One slot a tensor; transfers go through one channel in the order in which they begin. The bytes must stay as they are
// until their wait returns. Not for use by several threads.
class SpillStore {
 public:
  virtual ~SpillStore() = default;
  virtual void begin_write(std::uint32_t slot, const std::byte* src) = 0;
  virtual void begin_read(std::uint32_t slot, std::byte* dst) = 0;
  // SpillLost when the transfer failed.
  virtual void wait(std::uint32_t slot) = 0;
  // The same for a step that cannot be run again. The bytes of a write are still where they were: one that has failed
  // is tried again there, elsewhere in the file, in RAM that the tier above it has left, and then for as long as
  // patience goes.
  virtual void insist(std::uint32_t slot) { wait(slot); }
  // After an exception: lets go of whatever is on its way, so that the step can start again.
  virtual void drain() = 0;
  // The same place for the slots of another plan, when nothing is on its way: what has been written once is written
  // faster again, and memory stays pinned. None of the bytes are kept. False: no, and this store is of no use any more.
  virtual bool serve(const std::vector<std::int64_t>& /*slots*/, const SpillOptions& /*options*/) { return false; }
  virtual SpillCounters counters() const = 0;
  virtual std::span<const SlotTimes> times() const = 0;  // valid when nothing is on its way
  // All that begin and wait do is work on the device's streams: it can be captured (Device::capture) and replayed.
  virtual bool is_on_stream() const { return false; }
  // What was captured has run once more.
  virtual void note_replay() {}
};

// `slots` has the bytes of each slot. UserError when the folder cannot be used or is too full; nothing is left behind
// in it, whatever happens: the file has no name.
std::unique_ptr<SpillStore> make_spill_store(const std::vector<std::int64_t>& slots, const SpillOptions& options);

// The same for tensors on the GPU: into host memory that is pinned, over the copy stream, and from there to the store
// that spill_store_maker() makes. Null in a program without CUDA kernels. DeviceError when so much cannot be pinned.
[[gnu::weak]] std::unique_ptr<SpillStore> make_cuda_spill_store(const std::vector<std::int64_t>& slots,
                                                                const SpillOptions& options);

// How a trainer makes its store. None unless the application links one: not everybody wants io_uring.
using SpillStoreMaker = std::unique_ptr<SpillStore> (*)(const std::vector<std::int64_t>&, const SpillOptions&);
SpillStoreMaker& spill_store_maker();

}  // namespace neap
