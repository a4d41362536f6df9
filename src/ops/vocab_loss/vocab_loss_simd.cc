#include "ops/vocab_loss/vocab_loss_simd.h"

#include "ops/cross_entropy/cross_entropy_simd.h"
#include "ops/softmax/rows_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

NEAP_VM std::int64_t target_of(const VocabTile& t, const void* targets, std::int64_t row) {
  return t.wide ? static_cast<const std::int64_t*>(targets)[row] : static_cast<const std::int32_t*>(targets)[row];
}

NEAP_VM bool counts(const VocabTile& t, std::int64_t target) {
  return target != t.ignore && target >= 0 && target < t.classes;
}

void begin(VocabRows rows, std::int64_t count) {
  for (std::int64_t r = 0; r < count; ++r) {
    rows.top[r] = -__builtin_inff();
    rows.sum[r] = 0;
    rows.hit[r] = 0;
  }
}

// The sum so far is brought to the new top, so that no exponential overflows.
void absorb(const float* logits, const void* targets, VocabTile tile, VocabRows rows) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const float* x = logits + r * tile.columns;
    const float before = rows.top[r];
    const float here = row_max(x, tile.columns);
    const float top = here > before ? here : before;
    const float kept = rows.sum[r] == 0 ? 0 : rows.sum[r] * vexp(vset(before - top))[0];
    rows.sum[r] = kept + row_exp_sum(x, tile.columns, top);
    rows.top[r] = top;
    const std::int64_t target = target_of(tile, targets, r) - tile.first;
    if (target >= 0 && target < tile.columns) rows.hit[r] = x[target];
  }
}

void finish(const void* targets, VocabTile tile, VocabRows rows, double* sums) {
  const std::int64_t blocks = tile.rows < kLossBlocks ? tile.rows : kLossBlocks;
  for (std::int64_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (std::int64_t r = tile.rows * b / blocks; r < tile.rows * (b + 1) / blocks; ++r) {
      const float rest = vlog(vset(rows.sum[r]))[0];
      if (counts(tile, target_of(tile, targets, r))) sum += static_cast<double>(rows.top[r]) - rows.hit[r] + rest;
      rows.sum[r] = rows.top[r] + rest;
    }
    sums[b] = sum;
  }
}

void gradient(const float* logits, const void* targets, VocabTile tile, const float* lse, float scale, float* out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    float* d = out + r * tile.columns;
    const std::int64_t target = target_of(tile, targets, r);
    const bool is_counted = counts(tile, target);
    const float level = lse[r];
    over_row(logits + r * tile.columns, tile.columns, 0, [&](vf v, std::int64_t i, std::int64_t lanes) {
      vstore_n(d + i, is_counted ? vexp(v - level) * scale : vf{}, lanes);
    });
    const std::int64_t at = target - tile.first;
    if (is_counted && at >= 0 && at < tile.columns) d[at] -= scale;
  }
}

void add_columns(const float* x, float* sums, std::int64_t rows, std::int64_t columns, bool add) {
  for (std::int64_t c = 0; c < columns && !add; ++c) sums[c] = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) sums[c] += x[r * columns + c];
  }
}

}  // namespace

const VocabLossTable& vocab_loss_table() {
  static constexpr VocabLossTable kTable = {begin, absorb, finish, gradient, add_columns};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
