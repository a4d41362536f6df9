#include "ops/batch_norm/columns.h"

#include <algorithm>

namespace neap::ops {
namespace {

// Enough to share among many threads; few enough that the partial sums are small beside the data.
constexpr std::int64_t kParts = 64;
constexpr std::int64_t kLeastRows = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Columns columns_of(std::int64_t images, std::int64_t rows, std::int64_t c) {
  const std::int64_t parts_wanted = ceil_div(kParts, std::max<std::int64_t>(images, 1));
  // A multiple of 8: a part's mask starts at a whole byte.
  const std::int64_t part_rows = std::max(kLeastRows, ceil_div(ceil_div(rows, parts_wanted), 8) * 8);
  return {.images = images, .rows = rows, .c = c, .part_rows = part_rows, .parts = ceil_div(rows, part_rows)};
}

std::int64_t partial_bytes(const Columns& columns) {
  return columns.images * columns.parts * 2 * columns.c * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace neap::ops
