// How much a file may ask for. Far above what models need; there so that a few bytes cannot ask for all memory and
// time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/builder.h"

namespace neap::onnx {

inline constexpr std::size_t kMaxDepth = 32;            // of subgraphs in subgraphs
inline constexpr std::int64_t kMaxRuns = 4096;          // of one loop
inline constexpr std::int64_t kMaxImported = 200'000;   // nodes of the file; a loop's body counts for every run
inline constexpr std::int64_t kMaxMade = 1'000'000;     // nodes of Neap's that they become, folded ones too
inline constexpr std::int64_t kMaxTensor = 1LL << 36;   // bytes
inline constexpr int kMaxRank = 16;                     // what the kernels walk
inline constexpr std::int64_t kMaxSetting = 1LL << 30;  // strides, pads and the like: products of two still fit

// What folding may cost in all: bytes of constants that it leaves, and multiply-adds or words moved.
inline constexpr std::int64_t kMaxFoldedBytes = 256LL << 20;
inline constexpr std::int64_t kMaxFoldedWork = 4'000'000'000;
inline constexpr std::int64_t kAlwaysFolded = 1024;  // bytes: shape arithmetic, whatever went before

// UserError when a tensor of this type cannot be.
void check_size(const TensorType& type);

}  // namespace neap::onnx
