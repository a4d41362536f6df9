// A file without a name that tensors are spilled to, through io_uring past the system's cache where it can be had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace neap {

class SpillFile {
 public:
  // UserError: the folder does not exist, cannot be written, or has not that many bytes free.
  SpillFile(const std::string& folder, std::int64_t bytes);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Whole pages at a multiple of a page. Empty when done, else the reason. Several pieces are on their way at one time.
  std::string write(std::int64_t offset, const std::byte* src, std::int64_t bytes);
  std::string read(std::int64_t offset, std::byte* dst, std::int64_t bytes);
  bool is_direct() const;

 private:
  struct Ring;
  std::string transfer(bool is_write, std::int64_t offset, std::byte* data, std::int64_t bytes);

  int fd_ = -1;
  bool is_direct_ = false;
  std::unique_ptr<Ring> ring_;  // null where the system has no io_uring: plain reads and writes then
};

}  // namespace neap
