#include "device/cuda/cuda_arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"

namespace neap {
namespace {

// The driver's functions by way of the runtime: nothing is linked with the driver, so a machine without one gets a line
// of ours and not the loader's.
struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuGetErrorName) error_name;
};

template <class F>
void find(F& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  if (found == nullptr) throw DeviceError(fmt::format("the NVIDIA driver has no {}", name));
  function = reinterpret_cast<F>(found);
}

const Driver& driver() {
  static const Driver table = [] {
    Driver d{};
    find(d.granularity, "cuMemGetAllocationGranularity");
    find(d.reserve, "cuMemAddressReserve");
    find(d.free, "cuMemAddressFree");
    find(d.create, "cuMemCreate");
    find(d.release, "cuMemRelease");
    find(d.map, "cuMemMap");
    find(d.unmap, "cuMemUnmap");
    find(d.set_access, "cuMemSetAccess");
    find(d.error_name, "cuGetErrorName");
    return d;
  }();
  return table;
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  driver().error_name(status, &name);
  throw DeviceError(fmt::format("{} failed: {}", call, name != nullptr ? name : "unknown error"));
}

// DeviceError when the card has not `bytes` free, or a call says that it failed.
void refuse_above_free(std::int64_t bytes, CUresult status) {
  std::size_t free = 0;
  std::size_t total = 0;
  NEAP_CHECK_CUDA(cudaMemGetInfo(&free, &total));
  if (bytes <= static_cast<std::int64_t>(free) && status == CUDA_SUCCESS) return;
  throw DeviceError(
      fmt::format("the GPU has {} free, the arena needs {} more; another process may use it, or give a "
                  "smaller --budget",
                  human_bytes(static_cast<std::int64_t>(free)), human_bytes(bytes)));
}

CUmemAllocationProp on_the_card() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

}  // namespace

CudaArena::CudaArena(std::int64_t capacity) : capacity_(capacity), bytes_(capacity) {
  CudaContext::get();
  const CUmemAllocationProp properties = on_the_card();
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  chunk_ = align_up(2 * kMiB, static_cast<std::int64_t>(granularity));
  reserved_ = align_up(std::max<std::int64_t>(capacity, 1), chunk_);
  check(driver().reserve(&start_, static_cast<std::size_t>(reserved_), 0, 0, 0), "cuMemAddressReserve");
}

CudaArena::~CudaArena() {
  if (!chunks_.empty()) cudaDeviceSynchronize();  // calls may still be at work in it
  unmap_to(0);
  driver().free(start_, static_cast<std::size_t>(reserved_));
}

std::size_t CudaArena::chunks_for(std::int64_t bytes) const {
  return static_cast<std::size_t>(align_up(std::max<std::int64_t>(bytes, 1), chunk_) / chunk_);
}

std::byte* CudaArena::base() {
  if (chunks_.empty()) map_to(chunks_for(bytes_));
  return reinterpret_cast<std::byte*>(start_);
}

void CudaArena::resize(std::int64_t bytes) {
  require(bytes >= 0 && bytes <= capacity_, "an arena stays within its capacity");
  if (!chunks_.empty()) {
    const std::size_t chunks = chunks_for(bytes);
    if (chunks < chunks_.size()) {
      NEAP_CHECK_CUDA(cudaDeviceSynchronize());
      unmap_to(chunks);
    } else {
      map_to(chunks);
    }
  }
  bytes_ = bytes;
}

void CudaArena::map_to(std::size_t chunks) {
  const std::size_t before = chunks_.size();
  refuse_above_free(static_cast<std::int64_t>(chunks - before) * chunk_, CUDA_SUCCESS);
  const auto size = static_cast<std::size_t>(chunk_);
  const CUmemAllocationProp properties = on_the_card();
  while (chunks_.size() < chunks) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult status = driver().create(&handle, size, &properties, 0);
    if (status == CUDA_SUCCESS) {
      status = driver().map(start_ + chunks_.size() * size, size, 0, handle, 0);
      if (status != CUDA_SUCCESS) driver().release(handle);
    }
    if (status != CUDA_SUCCESS) {
      const std::int64_t missing = static_cast<std::int64_t>(chunks - chunks_.size()) * chunk_;
      unmap_to(before);
      refuse_above_free(missing, status);
    }
    chunks_.push_back(handle);
    CudaContext::get().count_arena(chunk_);
  }
  if (chunks == before) return;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult status = driver().set_access(start_ + before * size, (chunks - before) * size, &access, 1);
  if (status != CUDA_SUCCESS) unmap_to(before);
  check(status, "cuMemSetAccess");
}

void CudaArena::unmap_to(std::size_t chunks) {
  const auto size = static_cast<std::size_t>(chunk_);
  while (chunks_.size() > chunks) {
    driver().unmap(start_ + (chunks_.size() - 1) * size, size);
    driver().release(chunks_.back());
    chunks_.pop_back();
    CudaContext::get().count_arena(-chunk_);
  }
}

}  // namespace neap
