// Kernels compiled at run time by NVRTC, which is loaded when the first one is asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <string_view>

namespace neap {

// What `#include "NAME"` finds.
struct NvrtcHeader {
  const char* name;
  std::string_view text;
};

bool has_nvrtc();

// The kernel `name` (extern "C") of a source, for this card, with -fmad=false as the library's own. One source is
// compiled once a process and stays loaded. DeviceError has the compiler's words.
cudaKernel_t compile_kernel(const std::string& source, const char* name, std::span<const NvrtcHeader> headers);

}  // namespace neap
