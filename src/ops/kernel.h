// How an op offers kernels: an ordered list, best first, reference last; each may decline and says why.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "device/device.h"
#include "device/kernel.h"
#include "graph/op.h"

namespace neap {

struct Declined {
  std::string why;
};
using Prepared = std::variant<std::unique_ptr<Kernel>, Declined>;

struct KernelEntry {
  std::string_view name;  // "onednn", "simd", "ref"
  DeviceKind device = DeviceKind::kCpu;
  // `call` has static shapes. The kernel must not keep a reference to it. Null: not linked.
  Prepared (*prepare)(const OpCall& call) = nullptr;
  // Takes calls whose tensors are bf16 where the op's shape rule says f32 (or declines them).
  bool mixed = false;
};

// A kernel from a function of its buffers; `workspace` bytes are booked.
inline Prepared function_kernel(FunctionKernel::Function run, std::int64_t workspace = 0) {
  return std::make_unique<FunctionKernel>(std::move(run), workspace);
}

// Kernels on oneDNN and CUDA are declared weak: a program that is not linked with them (CMakeLists.txt) finds null
// pointers. Those of CUDA stand in the lists as they are, so that an entry's `prepare` is null there.
inline Prepared not_linked() { return Declined{"its library is not linked"}; }

// Shape rules that many ops share.
inline Types same_as_first(const OpCall& call) { return {call.in(0)}; }

}  // namespace neap
