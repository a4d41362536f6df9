// The kernel of one step of a program that runs chunk by chunk.
#pragma once

#include "ops/kernel.h"

namespace neap::ops {

enum class Which : std::uint8_t { kAny, kOwn, kRef };

// Null when there is none.
inline std::unique_ptr<Kernel> step_kernel(const OpCall& call, Which which) {
  for (std::size_t i = 0; i < call.op->kernel_count; ++i) {
    const KernelEntry& entry = call.op->kernels[i];
    if (entry.device != DeviceKind::kCpu || (which == Which::kOwn && entry.name == "onednn") ||
        (which == Which::kRef && entry.name != "ref")) {
      continue;
    }
    Prepared prepared = entry.prepare(call);
    if (auto* kernel = std::get_if<std::unique_ptr<Kernel>>(&prepared)) return std::move(*kernel);
  }
  return nullptr;
}

}  // namespace neap::ops
