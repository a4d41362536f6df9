#include "ops/int8/int8_simd.h"

#include "device/cpu/vmath.h"

// GCC 12 takes the undefined upper lanes inside its own intrinsics for a mistake of ours.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr int kVector = 16;  // output channels that lie side by side, whatever the instruction set

Int8Range range(const float* x, std::int64_t count) {
  vf low = {}, high = {}, odd = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const vf v = vload(x + i);
    low = v < low ? v : low;
    high = v > high ? v : high;
    odd += v * 0.0F;
  }
  Int8Range out = {0, 0, 0};
  for (int l = 0; l < kLanes; ++l) {
    out.low = low[l] < out.low ? low[l] : out.low;
    out.high = high[l] > out.high ? high[l] : out.high;
    out.odd += odd[l];
  }
  for (; i < count; ++i) {
    out.low = x[i] < out.low ? x[i] : out.low;
    out.high = x[i] > out.high ? x[i] : out.high;
    out.odd += x[i] * 0.0F;
  }
  return out;
}

// Adding 1.5 * 2^23 leaves the nearest integer, halves to even, in the lowest bits.
NEAP_VM std::uint8_t quantized(float x, float inverse, std::int32_t zero) {
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, x * inverse + 12582912.0F);
  const std::int32_t q = bits - 0x4B400000 + zero;
  return static_cast<std::uint8_t>(q < 0 ? 0 : q > 255 ? 255 : q);
}

void quantize(const float* x, std::int64_t pixels, std::int64_t in, std::int64_t quads, float inverse,
              std::int32_t zero, std::uint8_t* to) {
  const std::int64_t width = 4 * quads;
  if (in == width) {
    for (std::int64_t i = 0; i < pixels * in; ++i) to[i] = quantized(x[i], inverse, zero);
    return;
  }
  for (std::int64_t p = 0; p < pixels; ++p, x += in, to += width) {
    for (std::int64_t i = 0; i < in; ++i) to[i] = quantized(x[i], inverse, zero);
    for (std::int64_t i = in; i < width; ++i) to[i] = 0;
  }
}

// Sums of one row, kVector output channels, as results.
NEAP_VM void write(const Int8Tile& t, std::int64_t row, std::int64_t first, const std::int32_t* sums) {
  float* y = t.y + row * t.stride + first;
  const std::int64_t count = t.columns - first < kVector ? t.columns - first : kVector;
  for (std::int64_t l = 0; l < count; ++l) {
    const std::int64_t o = first + l;
    const auto exact = static_cast<float>(sums[l] - t.row_zero[row] * t.sums[o]);
    const float scaled = exact * (t.row_scale[row] * t.scale[o]);
    y[l] = t.bias != nullptr ? scaled + t.bias[o] : scaled;
  }
}

#if defined(__AVX2__)
// Products of 16 bits, added in pairs: two sums an output channel until the end.
NEAP_VM void sum_vector(const Int8Tile& t, std::int64_t row, std::int64_t first, std::int32_t* sums) {
  __m256i pairs[4] = {};
  const std::int8_t* b = t.panel + first * 4;
  for (std::int64_t tap = 0; tap < t.taps; ++tap) {
    const std::uint8_t* a = t.from[tap * kInt8TileRows + row];
    for (std::int64_t q = 0; q < t.quads; ++q, a += 4, b += t.lanes * 4) {
      std::int32_t four;
      __builtin_memcpy(&four, a, 4);
      const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 16 * i)));
        pairs[i] = _mm256_add_epi32(pairs[i], _mm256_madd_epi16(x, w));
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    std::int32_t both[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(both), pairs[i]);
    for (int l = 0; l < 4; ++l) sums[4 * i + l] = both[2 * l] + both[2 * l + 1];
  }
}
#else
NEAP_VM void sum_vector(const Int8Tile& t, std::int64_t row, std::int64_t first, std::int32_t* sums) {
  for (int l = 0; l < kVector; ++l) sums[l] = 0;
  const std::int8_t* b = t.panel + first * 4;
  for (std::int64_t tap = 0; tap < t.taps; ++tap) {
    const std::uint8_t* a = t.from[tap * kInt8TileRows + row];
    for (std::int64_t q = 0; q < t.quads; ++q, a += 4, b += t.lanes * 4) {
      for (int l = 0; l < kVector; ++l) {
        for (int i = 0; i < 4; ++i) sums[l] += a[i] * b[4 * l + i];
      }
    }
  }
}
#endif

void tile(const Int8Tile& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    for (std::int64_t first = 0; first < t.columns; first += kVector) {
      std::int32_t sums[kVector];
      sum_vector(t, row, first, sums);
      write(t, row, first, sums);
    }
  }
}

#if defined(__AVX512F__)
#define NEAP_VNNI __attribute__((target("avx512vnni")))

template <int kRows, int kVectors>
NEAP_VNNI void write_tile(const Int8Tile& t, const __m512i (&sum)[kRows][kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t left = t.columns - v * kVector;
    const auto mask = static_cast<__mmask16>(left >= kVector ? 0xFFFF : (1 << left) - 1);
    const __m512i total = _mm512_loadu_si512(t.sums + v * kVector);
    const __m512 scale = _mm512_loadu_ps(t.scale + v * kVector);
    const __m512 bias = t.bias != nullptr ? _mm512_maskz_loadu_ps(mask, t.bias + v * kVector) : _mm512_setzero_ps();
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i zero = _mm512_mullo_epi32(_mm512_set1_epi32(t.row_zero[r]), total);
      const __m512 exact = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum[r][v], zero));
      const __m512 y = _mm512_mul_ps(exact, _mm512_mul_ps(_mm512_set1_ps(t.row_scale[r]), scale));
      _mm512_mask_storeu_ps(t.y + r * t.stride + v * kVector, mask, t.bias != nullptr ? _mm512_add_ps(y, bias) : y);
    }
  }
}

template <int kRows, int kVectors>
NEAP_VNNI void multiply(const Int8Tile& t) {
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  const std::int8_t* b = t.panel;
  for (std::int64_t tap = 0; tap < t.taps; ++tap) {
    const std::uint8_t* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.from[tap * kInt8TileRows + r];
    for (std::int64_t q = 0; q < 4 * t.quads; q += 4, b += 64 * kVectors) {
      __m512i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = _mm512_loadu_si512(b + 64 * v);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        std::int32_t four;
        __builtin_memcpy(&four, a[r] + q, 4);
        const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, w[v]);
      }
    }
  }
  write_tile<kRows, kVectors>(t, sum);
}

template <int kVectors>
NEAP_VNNI void multiply_rows(const Int8Tile& t) {
  switch (t.rows) {
    case 1: return multiply<1, kVectors>(t);
    case 2: return multiply<2, kVectors>(t);
    case 3: return multiply<3, kVectors>(t);
    case 4: return multiply<4, kVectors>(t);
    case 5: return multiply<5, kVectors>(t);
    default: return multiply<6, kVectors>(t);
  }
}

NEAP_VNNI void tile_vnni(const Int8Tile& t) {
  switch (t.lanes / kVector) {
    case 1: return multiply_rows<1>(t);
    case 2: return multiply_rows<2>(t);
    case 3: return multiply_rows<3>(t);
    default: return multiply_rows<4>(t);
  }
}
#else
constexpr void (*tile_vnni)(const Int8Tile&) = nullptr;
#endif

}  // namespace

const Int8Table& int8_table() {
  static constexpr Int8Table kTable{range, quantize, tile, tile_vnni};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
