// A kernel for f32, run on tensors some of which are bf16: those are widened into the workspace before, and narrowed
// from there afterwards. What it computes is the meaning of an op on bf16: f32 inside, rounded once at the end.
#pragma once

#include <functional>

#include "ops/kernel.h"

namespace neap {

bool has_bf16(const OpCall& call);
// The types are those that the op's own shape rule gives.
bool is_native(const OpCall& call);
// bf16 as f32.
OpCall widened(const OpCall& call);

// Gives a kernel for widened(call), or for a piece of it. On the CPU, elements that do not depend on each other are
// taken some at a time, so that what is widened stays in the caches.
using PrepareWide = std::function<std::shared_ptr<Kernel>(const OpCall& call)>;
std::shared_ptr<Kernel> converting_kernel(const OpCall& call, const PrepareWide& prepare, DeviceKind device);

// Around a kernel for `inner_call`: what is bf16 in `call` and f32 there is converted, the rest handed on.
std::unique_ptr<Kernel> converting_between(const OpCall& call, const OpCall& inner_call, std::shared_ptr<Kernel> inner,
                                           DeviceKind device);

// convert_chunks.cc: the kernel that works some elements at a time; null where an element needs others.
std::shared_ptr<Kernel> chunked_kernel(const OpCall& call, const PrepareWide& prepare);

// On all threads.
void widen_cpu(const std::byte* from, float* to, std::int64_t n);
void narrow_cpu(const float* from, std::byte* to, std::int64_t n);

// On CUDA.
[[gnu::weak]] void widen_cuda(const std::byte* from, float* to, std::int64_t n, Stream& stream);
[[gnu::weak]] void narrow_cuda(const float* from, std::byte* to, std::int64_t n, Stream& stream);

}  // namespace neap
