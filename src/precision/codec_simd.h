#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct CodecTable {
  using Half = unsigned (*)(const float* src, std::int64_t n, std::uint8_t* payload);
  using Grouped = unsigned (*)(const float* src, std::int64_t n, std::uint64_t philox_key, std::uint8_t* payload,
                               std::uint8_t* history);
  using Expand = void (*)(const std::uint8_t* payload, const std::uint8_t* history, std::int64_t n, float* dst);

  Half fp16, bf16;
  Grouped stochastic[3];  // INT8, INT4, one bit
  Grouped nearest[3];
  Expand decode[6];  // by level; null for FP32
};

NEAP_ISA_TABLE(CodecTable, codec_table)

}  // namespace neap
