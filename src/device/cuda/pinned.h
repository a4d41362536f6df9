// Host memory that the copy engines reach by themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neap {

// Pinning takes a third of a second a GiB, and plans change: what is given back is kept for the next one, which takes
// it if it is large enough. For one thread.
class PinnedMemory {
 public:
  // DeviceError when so much cannot be pinned.
  explicit PinnedMemory(std::int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace neap
