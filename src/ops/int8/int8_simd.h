#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

inline constexpr std::int64_t kInt8TileRows = 6;

struct Int8Range {
  float low, high;  // 0 included
  float odd;        // 0, or NaN: there are numbers that are not finite
};

// Up to kInt8TileRows rows of u8 against one panel of weights (ops/int8/int8.h).
struct Int8Tile {
  const std::uint8_t* const* from;  // kInt8TileRows a tap: where each row's bytes for it begin
  std::int64_t taps, quads;
  const std::int8_t* panel;
  std::int64_t lanes;    // of the panel
  std::int64_t columns;  // of them that are wanted
  std::int64_t rows;
  const float* row_scale;
  const std::int32_t* row_zero;
  const float* scale;
  const std::int32_t* sums;
  const float* bias;  // null: none
  float* y;
  std::int64_t stride;  // between rows of y
};

struct Int8Table {
  Int8Range (*range)(const float* x, std::int64_t count);
  // `pixels` times `in` numbers, each pixel's bytes filled up with zeros to `quads` times four.
  void (*quantize)(const float* x, std::int64_t pixels, std::int64_t in, std::int64_t quads, float inverse,
                   std::int32_t zero, std::uint8_t* to);
  void (*tile)(const Int8Tile& tile);
  void (*tile_vnni)(const Int8Tile& tile);  // for machines with AVX-512 VNNI; null: this build has none
};
NEAP_ISA_TABLE(Int8Table, int8_table)

}  // namespace neap
