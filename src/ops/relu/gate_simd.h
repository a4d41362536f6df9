#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Functions whose slope has two values: one bit an element is all that backward needs.
enum class GateFn : std::uint8_t { kRelu, kLeakyRelu, kThresholdedRelu, kClip, kHardSigmoid, kCount };

struct GateArgs {
  float a = 0;
  float b = 0;
  float open = 1;    // slope where the bit is set
  float closed = 0;  // and elsewhere
};

struct GateTable {
  // `mask` may be null.
  void (*forward[static_cast<int>(GateFn::kCount)])(const float* src, float* dst, std::uint8_t* mask, std::int64_t n,
                                                    GateArgs args);
  void (*backward)(const float* diff_dst, const std::uint8_t* mask, float* diff_src, std::int64_t n, GateArgs args);
};

NEAP_ISA_TABLE(GateTable, gate_table)

}  // namespace neap
