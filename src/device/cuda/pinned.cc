#include "device/cuda/pinned.h"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"

namespace neap {
namespace {

struct Spare {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;

  void free() {
    if (data != nullptr) cudaFreeHost(data);
    *this = {};
  }
};

Spare& spare() {
  static Spare held;  // ends with the process: the driver is gone before destructors run
  return held;
}

// What the system can give without taking from others; pinned memory is never swapped.
std::int64_t free_host_bytes() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  while (info >> name >> kib) {
    if (name == "MemAvailable:") return kib * kKiB;
    info.ignore(1 << 10, '\n');
  }
  return INT64_MAX;  // it does not say
}

}  // namespace

PinnedMemory::PinnedMemory(std::int64_t bytes) {
  if (bytes <= 0) return;
  CudaContext::get();
  if (spare().bytes >= bytes) {
    data_ = std::exchange(spare().data, nullptr);
    bytes_ = std::exchange(spare().bytes, 0);
    return;
  }
  spare().free();
  bytes_ = align_up(bytes, kPage);
  if (const std::int64_t free = free_host_bytes(); bytes_ > free) {
    throw DeviceError(fmt::format("{} of host memory cannot be pinned, {} are free; give a smaller --host-ram",
                                  human_bytes(bytes_), human_bytes(free)));
  }
  const cudaError_t status =
      cudaHostAlloc(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(bytes_), cudaHostAllocDefault);
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(fmt::format("{} of host memory cannot be pinned ({}); give a smaller --host-ram",
                                human_bytes(bytes_), cudaGetErrorString(status)));
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  Spare mine{data_, bytes_};
  if (mine.bytes > spare().bytes) std::swap(mine, spare());
  mine.free();
}

}  // namespace neap
