// Device memory at addresses that stay: address space is reserved once, memory is mapped into it in chunks, so that the
// arena can grow and give memory back while everything below stays where it is.
#pragma once

#include <cuda.h>

#include <vector>

#include "device/device.h"

namespace neap {

class CudaArena final : public Arena {
 public:
  // With `guard` the arena ends where mapped memory ends: an access behind it is an error.
  CudaArena(std::int64_t bytes, bool guard);
  ~CudaArena() override;
  CudaArena(const CudaArena&) = delete;
  CudaArena& operator=(const CudaArena&) = delete;

  std::byte* base() override { return base_; }
  std::int64_t bytes() const override { return bytes_; }
  std::int64_t mapped_bytes() const { return static_cast<std::int64_t>(chunks_.size()) * chunk_; }

  // Maps or unmaps what lies above. DeviceError when the card has not that much free; the arena is then as before. The
  // device must have finished with what is given back. Not for a guarded arena.
  void resize(std::int64_t bytes);

 private:
  void map_to(std::size_t chunks);
  void unmap_to(std::size_t chunks);

  std::int64_t bytes_ = 0;
  std::int64_t chunk_ = 0;     // 2 MiB on every card so far
  std::int64_t reserved_ = 0;  // address space
  CUdeviceptr start_ = 0;
  std::byte* base_ = nullptr;
  bool is_guarded_;
  std::vector<CUmemGenericAllocationHandle> chunks_;
};

}  // namespace neap
