#include "ops/batch_norm/columns_simd.h"

#include "ops/batch_norm/columns_lanes.h"

namespace neap::NEAP_ISA_NS {

void column_apply(const Columns& s, const ColumnApply& a);
void column_sums(const Columns& s, const ColumnGradient& a, double* partial);
void column_gradient(const Columns& s, const ColumnGradient& a);

namespace {

constexpr std::int64_t kRowsTogether = 8;

// Adds R rows' deviations from the centre, and their squares.
template <std::int64_t R, class T>
NEAP_VM void add_rows(const T* x, std::int64_t stride, std::int64_t width, const float* centre, float* sum,
                      float* squares) {
  for (std::int64_t c = 0; c < width; c += kLanes) {
    const std::int64_t n = lanes_at(c, width);
    const vf middle = load_lanes(centre + c, n);
    vf sum_part{};
    vf squares_part{};
#pragma GCC unroll 8
    for (std::int64_t r = 0; r < R; ++r) {
      const vf d = load_lanes(x + r * stride + c, n) - middle;
      sum_part += d;
      squares_part = vfma(d, d, squares_part);
    }
    store_lanes(sum + c, load_lanes(sum + c, n) + sum_part, n);
    store_lanes(squares + c, load_lanes(squares + c, n) + squares_part, n);
  }
}

NEAP_VM float number(float x) { return x; }
NEAP_VM float number(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }

// The mean of the block's first rows: no further from its mean than a few of its deviations, so that what is summed
// about it loses at most three bits, however large the mean.
template <class T>
void find_centre(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, float* centre) {
  const std::int64_t some = least(kRowsTogether, rows);
  for (std::int64_t c = 0; c < width; ++c) {
    float sum = 0;
    for (std::int64_t r = 0; r < some; ++r) sum += number(x[r * stride + c]);
    centre[c] = sum / static_cast<float>(some);
  }
}

// Joins mean and sum of squared deviations of a block to those of the rows before it (Chan, Golub, LeVeque).
template <class T>
void join_block(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, std::int64_t rows_before,
                double* mean, double* m2) {
  float centre[kBlockColumns];
  float sum[kBlockColumns] = {};
  float squares[kBlockColumns] = {};
  find_centre(x, stride, rows, width, centre);
  std::int64_t r = 0;
  for (; r + kRowsTogether <= rows; r += kRowsTogether) {
    add_rows<kRowsTogether>(x + r * stride, stride, width, centre, sum, squares);
  }
  for (; r < rows; ++r) add_rows<1>(x + r * stride, stride, width, centre, sum, squares);
  const double per_row = 1 / static_cast<double>(rows);
  const double share = static_cast<double>(rows) / static_cast<double>(rows_before + rows);
  const double cross = share * static_cast<double>(rows_before);
  for (std::int64_t c = 0; c < width; ++c) {
    const double shift = sum[c] * per_row;
    const double delta = centre[c] + shift - mean[c];
    mean[c] += delta * share;
    m2[c] += squares[c] - sum[c] * shift + delta * delta * cross;
  }
}

template <class T>
void moments(const Columns& s, const T* x, double* partial) {
  const std::int64_t chunks = (s.c + kBlockColumns - 1) / kBlockColumns;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * s.parts * chunks; ++i) {
    const std::int64_t part = i / chunks;
    const std::int64_t c = i % chunks * kBlockColumns;
    const std::int64_t width = least(kBlockColumns, s.c - c);
    const std::int64_t first = part % s.parts * s.part_rows;
    const std::int64_t last = least(first + s.part_rows, s.rows);
    const T* image = x + part / s.parts * s.rows * s.c + c;
    double mean[kBlockColumns] = {};
    double m2[kBlockColumns] = {};
    for (std::int64_t r = first; r < last; r += kBlockRows) {
      join_block(image + r * s.c, s.c, least(kBlockRows, last - r), width, r - first, mean, m2);
    }
    double* out = partial + part * 2 * s.c + c;
    for (std::int64_t j = 0; j < width; ++j) out[j] = mean[j];
    for (std::int64_t j = 0; j < width; ++j) out[s.c + j] = m2[j];
  }
}

void merge_moments(const Columns& s, double* partial) {
  const std::int64_t chunks = (s.c + kBlockColumns - 1) / kBlockColumns;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * chunks; ++i) {
    double* into = partial + i / chunks * s.parts * 2 * s.c + i % chunks * kBlockColumns;
    const std::int64_t width = least(kBlockColumns, s.c - i % chunks * kBlockColumns);
    for (std::int64_t p = 1; p < s.parts; ++p) {
      const double before = static_cast<double>(p * s.part_rows);
      const double rows = static_cast<double>(least(s.part_rows, s.rows - p * s.part_rows));
      const double share = rows / (before + rows);
      const double* from = into + p * 2 * s.c;
      for (std::int64_t c = 0; c < width; ++c) {
        const double delta = from[c] - into[c];
        into[c] += delta * share;
        into[s.c + c] += from[s.c + c] + delta * delta * share * before;
      }
    }
  }
}

void merge_sums(const Columns& s, double* partial) {
  const std::int64_t chunks = (2 * s.c + kBlockColumns - 1) / kBlockColumns;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.images * chunks; ++i) {
    double* into = partial + i / chunks * s.parts * 2 * s.c + i % chunks * kBlockColumns;
    const std::int64_t width = least(kBlockColumns, 2 * s.c - i % chunks * kBlockColumns);
    for (std::int64_t p = 1; p < s.parts; ++p) {
      for (std::int64_t c = 0; c < width; ++c) into[c] += into[p * 2 * s.c + c];
    }
  }
}

}  // namespace

const ColumnsTable& columns_table() {
  static constexpr ColumnsTable kTable = {moments<float>, moments<std::uint16_t>, column_sums,    merge_moments,
                                          merge_sums,     column_apply,           column_gradient};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
