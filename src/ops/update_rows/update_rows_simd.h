#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/update/update_simd.h"

namespace neap {

enum class UpdateRule : std::uint8_t { kSgd, kMomentum, kAdam };

// A table, its state, and the step that its rows take.
struct RowSteps {
  UpdateRule rule = UpdateRule::kSgd;
  SgdStep sgd;
  AdamStep adam;
  float* param = nullptr;
  float* m = nullptr;  // or momentum
  float* v = nullptr;
  std::int64_t width = 0;
};

// A row that a lookup has picked. In order of rows, and for a row in order of places: lookup by lookup.
struct PickedRow {
  std::int64_t row = 0;
  std::int32_t place = 0;   // among the picks of all lookups
  std::int32_t lookup = 0;  // which one
  const float* dy = nullptr;
};

struct UpdateRowsTable {
  // Of the rows [first, last), whose gradient is `grad`, those that are not in picks[0, n), with `grad` + 0.
  void (*rest)(const RowSteps& steps, const float* grad, std::int64_t first, std::int64_t last, const PickedRow* picks,
               std::int64_t n);
  // Rows that are there, with the gradient rows[place of the first pick] + (0 + dy + dy ...) of the first lookup +
  // (...) of the next: each lookup's own sum, in the order of its ids.
  void (*picked)(const RowSteps& steps, const float* rows, const PickedRow* picks, std::int64_t n);
};
NEAP_ISA_TABLE(UpdateRowsTable, update_rows_table)

}  // namespace neap
