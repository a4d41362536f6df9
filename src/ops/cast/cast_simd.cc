#include "ops/cast/cast_simd.h"

#include "device/cpu/vmath.h"
#include "ops/elementwise/blocks.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <auto F>
void narrow(const void* src, void* dst, std::int64_t n) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* x = static_cast<const float*>(src) + first;
    std::uint16_t* y = static_cast<std::uint16_t*>(dst) + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) vstore_half(y + i, F(vload(x + i)));
    if (i < count) vstore_half_n(y + i, F(vload_n(x + i, count - i)), count - i);
  });
}

template <auto F>
void widen(const void* src, void* dst, std::int64_t n) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const std::uint16_t* x = static_cast<const std::uint16_t*>(src) + first;
    float* y = static_cast<float*>(dst) + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) vstore(y + i, F(vload_as<vh>(x + i)));
    if (i < count) vstore_n(y + i, F(vload_half_n(x + i, count - i)), count - i);
  });
}

template <class T, auto F>
void to_f32(const void* src, void* dst, std::int64_t n) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const T* x = static_cast<const T*>(src) + first;
    float* y = static_cast<float*>(dst) + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) y[i] = F(x[i]);
  });
}

}  // namespace

const CastTable& cast_table() {
  static constexpr CastTable kTable = {
      .f32_to_f16 = narrow<[](vf x) { return to_f16(x); }>,
      .f32_to_bf16 = narrow<[](vf x) { return to_bf16(x); }>,
      .f16_to_f32 = widen<[](vh x) { return from_f16(x); }>,
      .bf16_to_f32 = widen<[](vh x) { return from_bf16(x); }>,
      .u8_to_f32 = to_f32<std::uint8_t, [](std::uint8_t x) { return static_cast<float>(x); }>,
      .i32_to_f32 = to_f32<std::int32_t, [](std::int32_t x) { return static_cast<float>(x); }>,
      .i64_to_f32 = to_f32<std::int64_t, [](std::int64_t x) { return static_cast<float>(x); }>,
      .bool_to_f32 = to_f32<std::uint8_t, [](std::uint8_t x) { return x != 0 ? 1.0F : 0.0F; }>,
  };
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
