#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// The conversions that training does; all others take the reference's way. In place where sizes are equal.
struct CastTable {
  using Run = void (*)(const void* src, void* dst, std::int64_t n);
  Run f32_to_f16, f32_to_bf16, f16_to_f32, bf16_to_f32;
  Run u8_to_f32, i32_to_f32, i64_to_f32, bool_to_f32;
};

NEAP_ISA_TABLE(CastTable, cast_table)

}  // namespace neap
