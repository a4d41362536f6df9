#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "device/cuda/cublas.h"
#include "device/cuda/cuda.h"
#include "neap/error.h"

namespace neap {
namespace {

// The name of the call without its arguments.
std::string name_of(const char* call) {
  const std::string text(call);
  return text.substr(0, text.find('('));
}

// Bytes in use on a card, by all processes, as the driver's management library says: it can be asked before this
// process has a context, which the CUDA runtime cannot. Empty: there is no such library.
std::function<std::int64_t()> find_used_bytes(const char* bus_id) {
  struct Memory {
    unsigned long long total, free, used;
  };
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto read = reinterpret_cast<int (*)(void*, Memory*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  void* device = nullptr;
  const bool is_there =
      init != nullptr && find != nullptr && read != nullptr && init() == 0 && find(bus_id, &device) == 0;
  if (!is_there) return {};
  return [read, device] {
    Memory memory{};
    return read(device, &memory) == 0 ? static_cast<std::int64_t>(memory.used) : 0;
  };
}

// A card whose memory others have has none for a context either; which call meets it first depends on the driver.
void refuse_full_card(cudaError_t status) {
  if (status != cudaErrorMemoryAllocation) return;
  throw DeviceError(
      "--device cuda: the GPU has no memory left for a CUDA context, which takes about 600 MiB; another process has it "
      "(nvidia-smi shows which)");
}

void check_driver() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    int runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0) throw DeviceError("--device cuda: there is no NVIDIA driver on this machine; use --device cpu");
    throw DeviceError(fmt::format("--device cuda: the NVIDIA driver supports CUDA {}.{}, this build needs {}.{}",
                                  driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10));
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    throw DeviceError("--device cuda: there is no GPU that CUDA can use; use --device cpu");
  }
  refuse_full_card(status);
  check_cuda(status, "cudaGetDeviceCount");
}

}  // namespace

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  const char* hint = status == cudaErrorMemoryAllocation ? "; another process may use the GPU's memory" : "";
  throw DeviceError(
      fmt::format("{} failed: {} ({}){}", name_of(call), cudaGetErrorString(status), cudaGetErrorName(status), hint));
}

void check_launch(const char* kernel) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  throw DeviceError(
      fmt::format("CUDA kernel {}: {} ({})", kernel, cudaGetErrorString(status), cudaGetErrorName(status)));
}

CudaContext& CudaContext::get() {
  static auto* const context = new CudaContext;  // lives as long as the program: the driver ends before destructors
  return *context;
}

CudaContext::CudaContext() {
  check_driver();
  try {
    open();
  } catch (...) {
    // What failed for want of memory says so in one way, whichever call it was.
    std::size_t free = 0;
    std::size_t total = 0;
    refuse_full_card(cudaMemGetInfo(&free, &total));
    constexpr std::size_t kLeast = 64U << 20U;  // below it libraries cannot begin
    if (free < kLeast) refuse_full_card(cudaErrorMemoryAllocation);
    throw;
  }
}

void CudaContext::open() {
  char bus_id[32] = {};
  NEAP_CHECK_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device_));
  used_bytes_ = find_used_bytes(bus_id);
  if (used_bytes_) used_before_ = used_bytes_();
  const cudaError_t made = cudaSetDevice(device_);  // makes the context
  refuse_full_card(made);
  check_cuda(made, "cudaSetDevice");
  cudaDeviceProp properties{};
  NEAP_CHECK_CUDA(cudaGetDeviceProperties(&properties, device_));
  if (properties.major < 8) {
    throw DeviceError(fmt::format("--device cuda: {} has compute capability {}.{}; 8.0 or later is needed",
                                  properties.name, properties.major, properties.minor));
  }
  multiprocessors_ = properties.multiProcessorCount;
  name_ = fmt::format("{} sm_{}{}", properties.name, properties.major, properties.minor);
  std::size_t free = 0;
  std::size_t total = 0;
  NEAP_CHECK_CUDA(cudaMemGetInfo(&free, &total));
  total_bytes_ = static_cast<std::int64_t>(total);
  NEAP_CHECK_CUDA(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
  NEAP_CHECK_CUDA(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
  NEAP_CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&fault_), sizeof(CudaFault), cudaHostAllocMapped));
  *fault_ = {};
  const cublasStatus_t status = cublas_lt().create(&cublas_);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("cublasLtCreate failed: {}", cublas_lt().status_text(status)));
  }
}

cudnnContext* CudaContext::cudnn() {
  if (cudnn_ != nullptr) return cudnn_;
  cudnnStatus_t status = cudnnCreate(&cudnn_);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(cudnn_, compute_);
  if (status != CUDNN_STATUS_SUCCESS) {
    throw DeviceError(fmt::format("cudnnCreate failed: {}", cudnnGetErrorString(status)));
  }
  return cudnn_;
}

void CudaContext::throw_fault() {
  if (fault_->is_set == 0) return;
  const CudaFault fault = *fault_;
  *fault_ = {};
  throw UserError(fmt::format("{}: index {} is not in [0, {})", kFaultOps[fault.op], fault.index, fault.bound));
}

std::int64_t CudaContext::fixed_bytes() const {
  if (used_bytes_) return std::max(std::int64_t{0}, used_bytes_() - used_before_ - arena_bytes_);
  std::size_t free = 0;
  std::size_t total = 0;
  NEAP_CHECK_CUDA(cudaMemGetInfo(&free, &total));
  return std::max(std::int64_t{0}, total_bytes_ - static_cast<std::int64_t>(free) - arena_bytes_);
}

}  // namespace neap
