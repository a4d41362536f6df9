// The two places behind a spill store, and what makes sure that the same bytes come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pool/spill_file.h"
#include "pool/spill_store.h"

namespace neap {

// What holds bytes, whosever they are.
struct SpillPlaces {
  using Pages = std::unique_ptr<std::byte, void (*)(void*)>;
  Pages ram{nullptr, std::free};
  std::int64_t ram_bytes = 0;
  Pages bounce{nullptr, std::free};
  std::unique_ptr<SpillFile> file;
  std::int64_t file_bytes = 0;
};

class SpillTiers {
 public:
  // In the places of others that are no more, as far as these will do.
  SpillTiers(const std::vector<std::int64_t>& slots, const SpillOptions& options, SpillPlaces places = {});
  SpillPlaces places() && { return std::move(places_); }

  static constexpr int kPlaces = 3;  // that attempts at a write try: the slot's own, another in the file, RAM

  // Empty when done, else the reason. A read that comes back with other bytes is tried again; a write is by the caller,
  // who says how often it has failed.
  std::string write(std::uint32_t slot, const std::byte* src, int attempt = 0);
  std::string read(std::uint32_t slot, std::byte* dst);

  std::int64_t bytes(std::uint32_t slot) const { return slots_[slot].bytes; }
  bool in_ram(std::uint32_t slot) const { return slots_[slot].in_ram; }
  std::int64_t ram_bytes() const { return ram_bytes_; }
  std::int64_t file_bytes() const { return places_.file_bytes; }
  // Of a file that has refused a write for lack of space: what lies below it; -1: it has refused none.
  std::int64_t room_bytes() const { return room_bytes_; }

 private:
  using Pages = SpillPlaces::Pages;
  static constexpr std::int64_t kBounce = 4 * kMiB;

  struct Slot {
    std::int64_t bytes = 0;
    bool in_ram = false;
    Pages own{nullptr, nullptr};        // of a slot that has moved to RAM
    std::vector<std::int64_t> offsets;  // in its tier, one a copy
    std::vector<bool> is_good;          // one a copy: it was written
    std::vector<std::uint64_t> sums;    // one a SpillFile::kPiece
  };

  static Pages make_pages(std::int64_t bytes);
  std::string write_copy(const Slot& slot, std::int64_t offset, const std::byte* src, const EachPiece& each);
  std::string read_copy(const Slot& slot, std::int64_t offset, std::byte* dst, const EachPiece& each);
  std::string read_checked(const Slot& slot, std::int64_t offset, std::byte* dst);
  bool fails(std::int64_t nth) const { return faults_ && nth != 0 && faults_->reads == nth; }
  bool is_full(std::int64_t end) const;
  bool is_bad(std::int64_t offset, std::int64_t bytes) const;
  std::int64_t place_in_file(const SpillOptions& options);
  void open_file(const SpillOptions& options, std::int64_t bytes);
  void move_in_file(Slot& slot);
  void move_to_ram(Slot& slot);
  std::byte* in_memory(const Slot& slot, std::int64_t offset) {
    return slot.own ? slot.own.get() : places_.ram.get() + offset;
  }

  std::vector<Slot> slots_;
  std::int64_t most_ram_bytes_;
  std::int64_t ram_bytes_ = 0;
  std::int64_t room_bytes_ = -1;
  SpillPlaces places_;
  std::shared_ptr<SpillFaults> faults_;
};

}  // namespace neap
