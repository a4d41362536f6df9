// Device memory at addresses that stay: address space is reserved once, memory is mapped into it in chunks, so that the
// arena can grow and give memory back while everything below stays where it is.
#pragma once

#include <cuda.h>

#include <vector>

#include "device/device.h"

namespace neap {

class CudaArena final : public Arena {
 public:
  // Takes addresses alone. Memory comes when base() is first asked for: an arena that is to be smaller than its
  // capacity never takes more than that.
  explicit CudaArena(std::int64_t capacity);
  ~CudaArena() override;
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  // DeviceError when the card has not that much free.
  std::byte* base() override;
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t capacity() const override { return capacity_; }
  std::int64_t resident_bytes() const override { return static_cast<std::int64_t>(chunks_.size()) * chunk_; }
  // The device finishes first. DeviceError when the card has not that much free; the arena is then as before.
  void resize(std::int64_t bytes) override;

 private:
  void map_to(std::size_t chunks);
  void unmap_to(std::size_t chunks);

  std::size_t chunks_for(std::int64_t bytes) const;

  std::int64_t capacity_;
  std::int64_t bytes_;
  std::int64_t chunk_ = 0;     // 2 MiB on every card so far
  std::int64_t reserved_ = 0;  // address space
  CUdeviceptr start_ = 0;
  std::vector<CUmemGenericAllocationHandle> chunks_;
};

}  // namespace neap
