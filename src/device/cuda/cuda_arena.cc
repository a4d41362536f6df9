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
  throw DeviceError(fmt::format("the GPU has {} free, the arena needs {} more; another process may use it",
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

CudaArena::CudaArena(std::int64_t bytes, bool guard) : is_guarded_(guard) {
  CudaContext& context = CudaContext::get();
  const CUmemAllocationProp properties = on_the_card();
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  chunk_ = align_up(2 * kMiB, static_cast<std::int64_t>(granularity));
  reserved_ = align_up(std::max(bytes, context.total_bytes()), chunk_);
  check(driver().reserve(&start_, static_cast<std::size_t>(reserved_), 0, 0, 0), "cuMemAddressReserve");
  base_ = reinterpret_cast<std::byte*>(start_);
  try {
    map_to(static_cast<std::size_t>(align_up(std::max<std::int64_t>(bytes, 1), chunk_) / chunk_));
  } catch (const DeviceError&) {
    driver().free(start_, static_cast<std::size_t>(reserved_));
    throw;
  }
  bytes_ = bytes;
  if (guard) base_ += mapped_bytes() - align_up(bytes);
}

CudaArena::~CudaArena() {
  unmap_to(0);
  driver().free(start_, static_cast<std::size_t>(reserved_));
}

void CudaArena::resize(std::int64_t bytes) {
  require(!is_guarded_, "a guarded arena keeps its size");
  require(bytes >= 0 && bytes <= reserved_, "the arena's address space holds its new size");
  const auto chunks = static_cast<std::size_t>(align_up(std::max<std::int64_t>(bytes, 1), chunk_) / chunk_);
  chunks < chunks_.size() ? unmap_to(chunks) : map_to(chunks);
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
  check(driver().set_access(start_ + before * size, (chunks - before) * size, &access, 1), "cuMemSetAccess");
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
