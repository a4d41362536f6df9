// A file without a name that tensors are spilled to, through io_uring past the system's cache where it can be had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/bytes.h"

namespace neap {

// Called with the place (from the start of the transfer) and size of each piece: before it goes out, or when it has
// come in, while others are on their way. Pieces come in any order.
using EachPiece = std::function<void(std::int64_t at, std::int64_t bytes)>;

class SpillFile {
 public:
  static constexpr std::int64_t kPiece = kMiB;  // measured: as fast as any, with 8 of them on their way
  static constexpr const char* kFull = "the disk is full";

  // `memory` is where most bytes come from and go to; it is pinned once instead of page by page in each transfer, if
  // the system lets us (RLIMIT_MEMLOCK), and must stay mapped as it is. May be empty. UserError: the folder does not
  // exist, cannot be written, or has not that many bytes free.
  SpillFile(const std::string& folder, std::int64_t bytes, std::span<std::byte> memory = {});
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Whole pages at a multiple of a page. Empty when done, else the reason.
  std::string write(std::int64_t offset, const std::byte* src, std::int64_t bytes, const EachPiece& before = {});
  std::string read(std::int64_t offset, std::byte* dst, std::int64_t bytes, const EachPiece& after = {});
  // The same as in the constructor, for what lies between the two. False: it cannot be had.
  bool grow(std::int64_t from, std::int64_t to);
  bool is_for(const std::string& folder, std::span<std::byte> memory) const {
    return folder == folder_ && memory.data() == given_.data() && memory.size() == given_.size();
  }
  bool is_direct() const { return is_direct_; }
  bool is_registered() const { return is_registered_; }

 private:
  struct Ring;
  struct Transfer;
  std::string transfer(const Transfer& t);
  void submit_piece(const Transfer& t, std::int64_t at, std::int64_t bytes);
  void register_memory(std::span<std::byte> memory);

  int fd_ = -1;
  bool is_direct_ = false;
  bool is_registered_ = false;
  std::string folder_;
  std::span<std::byte> given_;   // whether it could be pinned or not
  std::span<std::byte> memory_;  // as far as it is
  std::unique_ptr<Ring> ring_;   // null where the system has no io_uring: plain reads and writes then
};

}  // namespace neap
