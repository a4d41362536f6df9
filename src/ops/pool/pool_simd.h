// Pooling over channels-last images, vectorised over the channels.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// One spatial axis. Position o looks at o * stride - pad_begin + k * dilation; the taps inside are k in [first, last).
struct PoolAxis {
  std::int64_t size;       // of the input
  std::int64_t positions;  // of the output
  std::int64_t kernel;
  const std::int32_t* start;  // [positions] input coordinate of tap 0, may lie outside
  const std::int32_t* first;  // [positions]
  const std::int32_t* last;   // [positions]
  std::int64_t dilation;
  const float* count;  // [positions] what an average divides by, along this axis
  // The other way round: input i is looked at by position[j] with its tap[j], j in [begin[i], begin[i + 1]).
  const std::int32_t* begin;
  const std::int32_t* position;
  const std::int32_t* tap;
};

struct PoolShape {
  std::int64_t n;
  std::int64_t c;
  PoolAxis h;
  PoolAxis w;
};

// [n, rows, c] to [n, c] and back.
struct GlobalShape {
  std::int64_t n;
  std::int64_t rows;
  std::int64_t c;
};

struct PoolTable {
  // `index` is a byte or an int32 an element: the tap that was largest (the first of them); null when not wanted.
  void (*max)(const PoolShape& s, const float* x, float* y, void* index, bool wide);
  void (*max_grad)(const PoolShape& s, const float* dy, const void* index, bool wide, float* dx);
  void (*average)(const PoolShape& s, const float* x, float* y);
  void (*average_grad)(const PoolShape& s, const float* dy, float* dx);
  void (*global_average)(GlobalShape s, const float* x, float* y);
  void (*global_average_grad)(GlobalShape s, const float* dy, float* dx);
  void (*global_max)(GlobalShape s, const float* x, float* y, std::int32_t* index);
  void (*global_max_grad)(GlobalShape s, const float* dy, const std::int32_t* index, float* dx);
};
NEAP_ISA_TABLE(PoolTable, pool_table)

}  // namespace neap
