#include "ops/update_rows/update_rows_simd.h"

#include <omp.h>

#include <algorithm>

#include "ops/elementwise/blocks.h"
#include "ops/update/steps.h"

namespace neap::NEAP_ISA_NS {
namespace {

// `count` elements of the table from element `first` on.
template <class Gradient>
void take(const RowSteps& s, std::int64_t first, std::int64_t count, Gradient grad) {
  switch (s.rule) {
    case UpdateRule::kSgd: return sgd_steps(s.param + first, grad, count, s.sgd);
    case UpdateRule::kMomentum: return momentum_steps(s.param + first, grad, s.m + first, count, s.sgd);
    case UpdateRule::kAdam: return adam_steps(s.param + first, grad, s.m + first, s.v + first, count, s.adam);
  }
}

// Of the rows [row, last); `grad` is that of the first of them.
void rest_of(const RowSteps& s, const float* grad, std::int64_t row, std::int64_t last, const PickedRow* picks,
             std::int64_t n) {
  const PickedRow* end = picks + n;
  const PickedRow* pick =
      std::lower_bound(picks, end, row, [](const PickedRow& p, std::int64_t r) { return p.row < r; });
  for (std::int64_t from = row; from < last;) {
    const std::int64_t next = pick < end && pick->row < last ? pick->row : last;
    const float* g = grad + (from - row) * s.width;
    // A row without a pick gets 0 from the lookups, which makes +0 of -0.
    take(s, from * s.width, (next - from) * s.width, [g](std::int64_t i) { return g[i] + 0.0F; });
    while (pick < end && pick->row == next) ++pick;
    from = next + 1;
  }
}

void rest(const RowSteps& s, const float* grad, std::int64_t first, std::int64_t last, const PickedRow* picks,
          std::int64_t n) {
  const std::int64_t rows = last - first;
#pragma omp parallel if (rows * s.width > kAlone)
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t from = rows * thread / threads;
    rest_of(s, grad + from * s.width, first + from, first + rows * (thread + 1) / threads, picks, n);
  }
}

// The gradient of some columns of one row, whose picks begin at `pick`.
void sum_columns(const float* dense, const PickedRow* pick, const PickedRow* end, std::int64_t first,
                 std::int64_t count, float* sum) {
  float part[kBlock / 4];
  for (std::int64_t c = 0; c < count; ++c) sum[c] = dense[first + c];
  const std::int64_t row = pick->row;
  while (pick < end && pick->row == row) {
    const std::int32_t lookup = pick->lookup;
    for (std::int64_t c = 0; c < count; ++c) part[c] = 0;
    for (; pick < end && pick->row == row && pick->lookup == lookup; ++pick) {
      const float* dy = pick->dy + first;
      for (std::int64_t c = 0; c < count; ++c) part[c] += dy[c];
    }
    for (std::int64_t c = 0; c < count; ++c) sum[c] += part[c];
  }
}

void picked(const RowSteps& s, const float* rows, const PickedRow* picks, std::int64_t n) {
  constexpr std::int64_t kColumns = kBlock / 4;
#pragma omp parallel for schedule(static) if (n * s.width > kAlone)
  for (std::int64_t i = 0; i < n; ++i) {
    const PickedRow& pick = picks[i];
    if (i > 0 && picks[i - 1].row == pick.row) continue;  // one of the row that began before
    float sum[kColumns];
    for (std::int64_t first = 0; first < s.width; first += kColumns) {
      const std::int64_t count = std::min(kColumns, s.width - first);
      sum_columns(rows + pick.place * s.width, &pick, picks + n, first, count, sum);
      take(s, pick.row * s.width + first, count, [&sum](std::int64_t c) { return sum[c]; });
    }
  }
}

}  // namespace

const UpdateRowsTable& update_rows_table() {
  static constexpr UpdateRowsTable kTable = {rest, picked};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
