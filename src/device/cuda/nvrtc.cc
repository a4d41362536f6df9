#include "device/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/cuda.h"
#include "neap/error.h"

namespace neap {
namespace {

struct Nvrtc {
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetCUBINSize) code_size = nullptr;
  decltype(&nvrtcGetCUBIN) code = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  bool is_there = false;
};

Nvrtc load() {
  Nvrtc f;
  void* library = dlopen(fmt::format("libnvrtc.so.{}", CUDART_VERSION / 1000).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return f;
  f.is_there = true;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, symbol));
    f.is_there = f.is_there && function != nullptr;
  };
  find(f.create, "nvrtcCreateProgram");
  find(f.destroy, "nvrtcDestroyProgram");
  find(f.compile, "nvrtcCompileProgram");
  find(f.code_size, "nvrtcGetCUBINSize");
  find(f.code, "nvrtcGetCUBIN");
  find(f.log_size, "nvrtcGetProgramLogSize");
  find(f.log, "nvrtcGetProgramLog");
  return f;
}

const Nvrtc& nvrtc() {
  static const Nvrtc functions = load();
  return functions;
}

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc().log_size(program, &size) != NVRTC_SUCCESS || size < 2) return "no reason given";
  std::string text(size, '\0');
  nvrtc().log(program, text.data());
  text.resize(size - 1);
  return text;
}

std::vector<char> machine_code(const std::string& source, std::span<const NvrtcHeader> headers) {
  std::vector<const char*> names;
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  for (const NvrtcHeader& header : headers) {
    names.push_back(header.name);
    texts.emplace_back(header.text);
  }
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  nvrtcProgram program = nullptr;
  if (nvrtc().create(&program, source.c_str(), "fused.cu", static_cast<int>(names.size()), pointers.data(),
                     names.data()) != NVRTC_SUCCESS) {
    throw DeviceError("nvrtcCreateProgram failed");
  }
  const std::string& card = CudaContext::get().name();
  const std::string architecture = "--gpu-architecture=" + card.substr(card.rfind("sm_"));
  const char* options[] = {architecture.c_str(), "-fmad=false", "-std=c++20", "-default-device"};
  const nvrtcResult status = nvrtc().compile(program, static_cast<int>(std::size(options)), options);
  std::size_t size = 0;
  const bool is_made = status == NVRTC_SUCCESS && nvrtc().code_size(program, &size) == NVRTC_SUCCESS && size > 0;
  std::vector<char> code(size);
  if (is_made) nvrtc().code(program, code.data());
  const std::string log = is_made ? std::string() : log_of(program);
  nvrtc().destroy(&program);
  if (!is_made) throw DeviceError(fmt::format("a fused kernel could not be compiled: {}", log));
  return code;
}

}  // namespace

bool has_nvrtc() { return nvrtc().is_there; }

cudaKernel_t compile_kernel(const std::string& source, const char* name, std::span<const NvrtcHeader> headers) {
  static std::mutex mutex;
  static std::map<std::string, cudaKernel_t> known;
  const std::scoped_lock lock(mutex);
  if (const auto at = known.find(source); at != known.end()) return at->second;
  if (!has_nvrtc()) throw DeviceError("libnvrtc is not there");
  const std::vector<char> code = machine_code(source, headers);
  cudaLibrary_t library = nullptr;
  NEAP_CHECK_CUDA(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  NEAP_CHECK_CUDA(cudaLibraryGetKernel(&kernel, library, name));
  return known[source] = kernel;
}

}  // namespace neap
