#include "ops/sparse/sparse_simd.h"

#include "device/cpu/vmath.h"

// GCC 12 takes the undefined upper lanes inside its own intrinsics for a mistake of ours.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr std::int64_t kPanelLanes = 16;

#if defined(__AVX512F__)
// One row's eight inputs stand twice in a vector, so that four bits say where each lane's is.
template <int kRows, int kPanels>
void multiply(const SparseTile& t) {
  const __m512i shifts = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  __m512 sum[kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) sum[r][p] = _mm512_setzero_ps();
  }
  const std::int64_t panel = t.groups * t.kept;
  std::int64_t v = 0;
  for (std::int64_t g = 0; g < t.groups; ++g) {
    __m512 x[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = _mm512_broadcast_f32x8(_mm256_loadu_ps(t.x + r * t.x_stride + 8 * g));
    for (std::int64_t i = 0; i < t.kept; ++i, ++v) {
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        const std::int64_t at = p * panel + v;
        const __m512 w = _mm512_loadu_ps(t.values + at * kPanelLanes);
        const __m512i where = _mm512_srlv_epi32(_mm512_set1_epi64(static_cast<std::int64_t>(t.index[at])), shifts);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          sum[r][p] = _mm512_fmadd_ps(_mm512_permutexvar_ps(where, x[r]), w, sum[r][p]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    const std::int64_t left = t.columns - p * kPanelLanes;
    const auto mask = static_cast<__mmask16>(left >= kPanelLanes ? 0xFFFF : (1 << left) - 1);
    const __m512 bias = t.bias != nullptr ? _mm512_maskz_loadu_ps(mask, t.bias + p * kPanelLanes) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      _mm512_mask_storeu_ps(t.y + r * t.y_stride + p * kPanelLanes, mask, _mm512_add_ps(sum[r][p], bias));
    }
  }
}
#elif defined(__AVX2__)
template <int kRows, int kPanels>
void multiply(const SparseTile& t) {
  const __m256i low = _mm256_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12);
  const __m256i high = _mm256_setr_epi32(16, 16, 20, 20, 24, 24, 28, 28);
  for (int p = 0; p < kPanels; ++p) {
    for (int r = 0; r < kRows; ++r) {
      __m256 sum[2] = {};
      std::int64_t v = p * t.groups * t.kept;
      for (std::int64_t g = 0; g < t.groups; ++g) {
        const __m256 x = _mm256_loadu_ps(t.x + r * t.x_stride + 8 * g);
        for (std::int64_t i = 0; i < t.kept; ++i, ++v) {
          const __m256i word = _mm256_set1_epi64x(static_cast<std::int64_t>(t.index[v]));
          const float* w = t.values + v * kPanelLanes;
          const __m256 a = _mm256_permutevar8x32_ps(x, _mm256_srlv_epi32(word, low));
          const __m256 b = _mm256_permutevar8x32_ps(x, _mm256_srlv_epi32(word, high));
          sum[0] = _mm256_fmadd_ps(a, _mm256_loadu_ps(w), sum[0]);
          sum[1] = _mm256_fmadd_ps(b, _mm256_loadu_ps(w + 8), sum[1]);
        }
      }
      float both[16];
      _mm256_storeu_ps(both, sum[0]);
      _mm256_storeu_ps(both + 8, sum[1]);
      const std::int64_t left = t.columns - p * kPanelLanes;
      for (std::int64_t l = 0; l < (left < kPanelLanes ? left : kPanelLanes); ++l) {
        const float bias = t.bias != nullptr ? t.bias[p * kPanelLanes + l] : 0;
        t.y[r * t.y_stride + p * kPanelLanes + l] = both[l] + bias;
      }
    }
  }
}
#else
template <int kRows, int kPanels>
void multiply(const SparseTile& t) {
  for (std::int64_t o = 0; o < t.columns; ++o) {
    const std::int64_t lane = o % kPanelLanes;
    for (int r = 0; r < kRows; ++r) {
      float sum = 0;
      std::int64_t v = o / kPanelLanes * t.groups * t.kept;
      for (std::int64_t g = 0; g < t.groups; ++g) {
        for (std::int64_t i = 0; i < t.kept; ++i, ++v) {
          const std::uint64_t at = t.index[v] >> (32 * (lane % 2) + 4 * (lane / 2)) & 15U;
          sum += t.values[v * kPanelLanes + lane] * t.x[r * t.x_stride + 8 * g + static_cast<std::int64_t>(at)];
        }
      }
      t.y[r * t.y_stride + o] = sum + (t.bias != nullptr ? t.bias[o] : 0);
    }
  }
}
#endif

template <int kRows>
void multiply_rows(const SparseTile& t) {
  if (t.panels == 2) {
    multiply<kRows, 2>(t);
  } else {
    multiply<kRows, 1>(t);
  }
}

// Every row is summed in the same order, whatever the tile.
void tile(const SparseTile& t) {
  SparseTile part = t;
  while (part.rows > 0) {
    const std::int64_t rows = part.rows >= 8 ? 8 : part.rows >= 4 ? 4 : part.rows >= 2 ? 2 : 1;
    switch (rows) {
      case 8: multiply_rows<8>(part); break;
      case 4: multiply_rows<4>(part); break;
      case 2: multiply_rows<2>(part); break;
      default: multiply_rows<1>(part);
    }
    part.rows -= rows;
    part.x += rows * part.x_stride;
    part.y += rows * part.y_stride;
  }
}

void transpose(const float* x, std::int64_t rows, std::int64_t in, std::int64_t width, float* xt) {
  for (std::int64_t i = 0; i < in; ++i, xt += width) {
    for (std::int64_t r = 0; r < rows; ++r) xt[r] = x[r * in + i];
    for (std::int64_t r = rows; r < width; ++r) xt[r] = 0;
  }
}

template <int kVectors>
void sum_output(const ListedTile& t, std::int64_t from, std::int64_t to, float* sums) {
  vf sum[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) sum[v] = vf{};
  for (std::int64_t n = from; n < to; ++n) {
    const vf w = vset(t.values[n]);
    const float* x = t.xt + t.index[n] * t.width;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = vfma(w, vload(x + v * kLanes), sum[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) vstore(sums + v * kLanes, sum[v]);
}

void listed(const ListedTile& t) {
  float sums[kListedOutputs * kListedRows];
  for (std::int64_t o = 0; o < t.outputs; ++o) {
    float* to = sums + o * kListedRows;
    const std::int64_t first = t.start[o], last = t.start[o + 1];
    switch (t.width / 16) {
      case 1: sum_output<16 / kLanes>(t, first, last, to); break;
      case 2: sum_output<32 / kLanes>(t, first, last, to); break;
      case 3: sum_output<48 / kLanes>(t, first, last, to); break;
      default: sum_output<64 / kLanes>(t, first, last, to);
    }
  }
  for (std::int64_t r = 0; r < t.rows; ++r) {
    for (std::int64_t o = 0; o < t.outputs; ++o) {
      t.y[r * t.y_stride + o] = sums[o * kListedRows + r] + (t.bias != nullptr ? t.bias[o] : 0);
    }
  }
}

float dot(const float* x, const float* values, const std::uint16_t* index, std::int64_t count) {
  float sums[16] = {};
  std::int64_t n = 0;
#if defined(__AVX512F__)
  __m512 sum = _mm512_setzero_ps();
  for (; n + 16 <= count; n += 16) {
    const __m512i at = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + n)));
    sum = _mm512_fmadd_ps(_mm512_loadu_ps(values + n), _mm512_i32gather_ps(at, x, 4), sum);
  }
  _mm512_storeu_ps(sums, sum);
#else
  for (; n + 16 <= count; n += 16) {
    for (int l = 0; l < 16; ++l) sums[l] += values[n + l] * x[index[n + l]];
  }
#endif
  for (; n < count; ++n) sums[0] += values[n] * x[index[n]];
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

}  // namespace

const SparseTable& sparse_table() {
  static constexpr SparseTable kTable{tile, transpose, listed, dot};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
