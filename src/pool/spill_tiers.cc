#include "pool/spill_tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "pool/checksum_simd.h"
#include "pool/slot_places.h"

namespace neap {
namespace {

std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

bool begins_a_page(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % size_of(kPage) == 0; }

// Sums up pieces as they pass by, and in the end those that did not pass whole.
class Summing {
 public:
  Summing(const std::byte* data, std::int64_t bytes, std::size_t count) : data_(data), bytes_(bytes), sums_(count) {}

  void piece(std::int64_t at, std::int64_t size) {
    const bool is_whole = at % SpillFile::kPiece == 0 && size == std::min(SpillFile::kPiece, bytes_ - at);
    if (is_whole) add(static_cast<std::size_t>(at / SpillFile::kPiece));
  }

  const std::vector<std::uint64_t>& rest() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i] == 0) add(i);
    }
    return sums_;
  }

 private:
  void add(std::size_t i) {
    const std::int64_t at = static_cast<std::int64_t>(i) * SpillFile::kPiece;
    sums_[i] = checksum(data_ + at, std::min(SpillFile::kPiece, bytes_ - at)) | 1;  // 0: not yet
  }

  const std::byte* data_;
  std::int64_t bytes_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace

SpillTiers::Pages SpillTiers::make_pages(std::int64_t bytes) {
  const std::size_t size = size_of(std::max(align_up(bytes, kPage), kPage));
  Pages out(static_cast<std::byte*>(std::aligned_alloc(size_of(kPage), size)), std::free);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

SpillTiers::SpillTiers(const std::vector<std::int64_t>& slots, const SpillOptions& options, SpillPlaces places)
    : most_ram_bytes_(options.host_ram_bytes), places_(std::move(places)), faults_(options.faults) {
  if (!places_.bounce) places_.bounce = make_pages(kBounce);
  for (const std::int64_t bytes : slots) {
    const std::int64_t room = align_up(bytes, kPage);
    Slot slot{.bytes = bytes, .in_ram = ram_bytes_ + room <= options.host_ram_bytes};
    if (slot.in_ram) {
      slot.offsets = {ram_bytes_};
      slot.is_good = {false};
      ram_bytes_ += room;
    }
    slots_.push_back(std::move(slot));
  }
  if (ram_bytes_ > places_.ram_bytes) {
    places_.ram.reset();
    places_.ram = make_pages(ram_bytes_);
    places_.ram_bytes = ram_bytes_;
  }
  ram_bytes_ = places_.ram_bytes;
  open_file(options, place_in_file(options));
  for (Slot& slot : slots_) slot.sums.resize(size_of((slot.bytes + SpillFile::kPiece - 1) / SpillFile::kPiece));
}

void SpillTiers::open_file(const SpillOptions& options, std::int64_t bytes) {
  std::error_code error;
  const std::string folder =
      options.folder.empty() ? std::filesystem::temp_directory_path(error).string() : options.folder;
  SpillFile* const had = places_.file.get();
  const bool will_do = had != nullptr && bytes > 0 && had->is_for(folder, options.memory) &&
                       (bytes <= places_.file_bytes || had->grow(places_.file_bytes, bytes));
  if (!will_do) {
    places_.file.reset();  // its room first
    places_.file_bytes = 0;
    if (bytes > 0) places_.file = std::make_unique<SpillFile>(folder, bytes, options.memory);
  }
  places_.file_bytes = std::max(places_.file_bytes, bytes);
}

// Returns the bytes that the file needs.
std::int64_t SpillTiers::place_in_file(const SpillOptions& options) {
  const std::size_t copies = options.mirror ? 2 : 1;
  std::vector<std::size_t> on_disk;
  std::vector<std::int64_t> rooms;
  std::vector<SlotLife> lives;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].in_ram) continue;
    on_disk.push_back(i);
    rooms.push_back(align_up(slots_[i].bytes, kPage) * static_cast<std::int64_t>(copies));
    if (!options.lives.empty()) lives.push_back(options.lives[i]);
  }
  const SlotPlaces places = place_slots(rooms, lives);
  for (std::size_t i = 0; i < on_disk.size(); ++i) {
    Slot& slot = slots_[on_disk[i]];
    for (std::size_t copy = 0; copy < copies; ++copy) {
      slot.offsets.push_back(places.offsets[i] + static_cast<std::int64_t>(copy) * align_up(slot.bytes, kPage));
    }
    slot.is_good.resize(copies);
  }
  return places.bytes;
}

bool SpillTiers::is_full(std::int64_t end) const {
  const bool is_on = faults_ && faults_->full_bytes >= 0 && end > faults_->full_bytes;
  return is_on && faults_->writes >= faults_->full_from && faults_->writes <= faults_->full_to;
}

bool SpillTiers::is_bad(std::int64_t offset, std::int64_t bytes) const {
  const bool is_on = faults_ && faults_->bad_place >= 0 && faults_->writes >= faults_->bad_from;
  return is_on && offset <= faults_->bad_place && faults_->bad_place < offset + bytes;
}

// To the end of the file; where that cannot grow, the old place has to do.
void SpillTiers::move_in_file(Slot& slot) {
  if (slot.in_ram) return;
  const std::int64_t room = align_up(slot.bytes, kPage);
  const std::int64_t end = places_.file_bytes + room * static_cast<std::int64_t>(slot.offsets.size());
  if (!places_.file->grow(places_.file_bytes, end)) return;
  for (std::int64_t& offset : slot.offsets) {
    offset = places_.file_bytes;
    places_.file_bytes += room;
  }
}

void SpillTiers::move_to_ram(Slot& slot) {
  const std::int64_t room = align_up(slot.bytes, kPage);
  if (slot.in_ram || ram_bytes_ + room > most_ram_bytes_) return;
  slot.own = make_pages(room);
  slot.in_ram = true;
  slot.offsets = {0};
  slot.is_good = {false};
  ram_bytes_ += room;
}

std::string SpillTiers::write(std::uint32_t index, const std::byte* src, int attempt) {
  Slot& slot = slots_[index];
  static_assert(kPlaces == 3);
  if (attempt == 2) move_in_file(slot);
  if (attempt == 3) move_to_ram(slot);
  if (faults_ && ++faults_->writes == faults_->fail_write) return "a spill could not be written: injected";
  Summing summing(src, slot.bytes, slot.sums.size());
  std::string error;
  for (std::size_t copy = 0; copy < slot.offsets.size(); ++copy) {
    const auto each = [&summing](std::int64_t at, std::int64_t size) { summing.piece(at, size); };
    const std::string why = write_copy(slot, slot.offsets[copy], src, copy == 0 ? EachPiece(each) : EachPiece());
    slot.is_good[copy] = why.empty();
    if (!why.empty()) error = fmt::format("a spill could not be written: {}", why);
  }
  slot.sums = summing.rest();
  const bool any = std::find(slot.is_good.begin(), slot.is_good.end(), true) != slot.is_good.end();
  return any ? "" : error;
}

std::string SpillTiers::read(std::uint32_t index, std::byte* dst) {
  const Slot& slot = slots_[index];
  if (faults_) ++faults_->reads;
  constexpr int kAttempts = 2;  // for each copy
  std::string error = "nothing was written where spilled bytes should be";
  for (std::size_t copy = 0; copy < slot.offsets.size(); ++copy) {
    for (int attempt = 0; slot.is_good[copy] && attempt < kAttempts; ++attempt) {
      error = read_checked(slot, slot.offsets[copy], dst);
      // Injected faults strike the first copy only.
      if (faults_ && copy == 0 && fails(faults_->fail_read)) error = "spilled bytes could not be read: injected";
      if (error.empty()) return error;
    }
  }
  return error;
}

std::string SpillTiers::read_checked(const Slot& slot, std::int64_t offset, std::byte* dst) {
  const bool is_changed = faults_ && offset == slot.offsets[0] && fails(faults_->corrupt_read);
  Summing summing(dst, slot.bytes, slot.sums.size());
  const std::string why = read_copy(slot, offset, dst, [&](std::int64_t at, std::int64_t size) {
    if (is_changed && at == 0) dst[0] ^= std::byte{4};
    summing.piece(at, size);
  });
  if (!why.empty()) return fmt::format("spilled bytes could not be read: {}", why);
  return summing.rest() == slot.sums ? "" : "spilled bytes came back changed";
}

// Whole pages from or to memory that begins at a page go straight through; the rest over a buffer.
std::string SpillTiers::write_copy(const Slot& slot, std::int64_t offset, const std::byte* src, const EachPiece& each) {
  if (slot.in_ram) {
    std::memcpy(in_memory(slot, offset), src, size_of(slot.bytes));
    return {};
  }
  const std::int64_t whole = begins_a_page(src) ? slot.bytes / kPage * kPage : 0;
  std::string error = is_full(offset + slot.bytes) ? SpillFile::kFull : "";
  if (is_bad(offset, slot.bytes)) error = "injected";
  if (whole > 0 && error.empty()) error = places_.file->write(offset, src, whole, each);
  for (std::int64_t at = whole; at < slot.bytes && error.empty(); at += kBounce) {
    const std::int64_t bytes = std::min(kBounce, slot.bytes - at);
    std::memcpy(places_.bounce.get(), src + at, size_of(bytes));
    error = places_.file->write(offset + at, places_.bounce.get(), align_up(bytes, kPage));
  }
  if (error == SpillFile::kFull) room_bytes_ = room_bytes_ < 0 ? offset : std::min(room_bytes_, offset);
  return error;
}

std::string SpillTiers::read_copy(const Slot& slot, std::int64_t offset, std::byte* dst, const EachPiece& each) {
  if (slot.in_ram) {
    std::memcpy(dst, in_memory(slot, offset), size_of(slot.bytes));
    if (each) each(0, std::min(SpillFile::kPiece, slot.bytes));
    return {};
  }
  const std::int64_t whole = begins_a_page(dst) ? slot.bytes / kPage * kPage : 0;
  std::string error = whole > 0 ? places_.file->read(offset, dst, whole, each) : "";
  for (std::int64_t at = whole; at < slot.bytes && error.empty(); at += kBounce) {
    const std::int64_t bytes = std::min(kBounce, slot.bytes - at);
    error = places_.file->read(offset + at, places_.bounce.get(), align_up(bytes, kPage));
    if (error.empty()) std::memcpy(dst + at, places_.bounce.get(), size_of(bytes));
  }
  return error;
}

}  // namespace neap
