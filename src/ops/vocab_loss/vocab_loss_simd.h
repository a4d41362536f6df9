#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// One tile of logits: `columns` classes from `first` on, dense rows.
struct VocabTile {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t first;
  std::int64_t classes;  // all of them
  std::int64_t ignore;
  bool wide;  // targets are i64, else i32
};

// What is known of each row while tiles go by.
struct VocabRows {
  float* top;  // the largest logit so far
  float* sum;  // of e^(logit - top); in the end lse takes its place
  float* hit;  // the target's logit
};

struct VocabLossTable {
  void (*begin)(VocabRows rows, std::int64_t count);
  void (*absorb)(const float* logits, const void* targets, VocabTile tile, VocabRows rows);
  // Sums of the rows' losses, kLossBlocks at most, in double; `sum` becomes lse.
  void (*finish)(const void* targets, VocabTile tile, VocabRows rows, double* sums);
  // scale * softmax, less scale at the target; 0 in rows that do not count. `out` is `logits`, or apart.
  void (*gradient)(const float* logits, const void* targets, VocabTile tile, const float* lse, float scale, float* out);
  // sums[c] (+)= sum over rows of x[row][c]
  void (*add_columns)(const float* x, float* sums, std::int64_t rows, std::int64_t columns, bool add);
};
NEAP_ISA_TABLE(VocabLossTable, vocab_loss_table)

}  // namespace neap
