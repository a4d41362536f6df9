// The nonlinear part of one step of a recurrent cell, forward and backward, on a block of rows and units.
#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

// Arrays are [batch, hidden]; gates and dgates are [batch, blocks * hidden], one block of columns a gate.
struct CellBlock {
  std::int64_t row = 0, row_end = 0;
  std::int64_t unit = 0, unit_end = 0;
  std::int64_t hidden = 0;
};

// Rows whose sequence has ended (time >= lengths[row]) output 0 and keep their state.
struct CellMask {
  const std::int32_t* lengths = nullptr;  // null: no row ever ends
  std::int64_t time = 0;
};

struct CellForward {
  CellBlock block;
  CellMask mask;
  const float* b_ih = nullptr;  // biases may be null, and so may h_prev and c_prev: zeros
  const float* b_hh = nullptr;
  const float* h_prev = nullptr;
  const float* c_prev = nullptr;  // may be c itself
  float* gates = nullptr;         // in: products of input and state with the weights; out: activated
  float* h = nullptr;             // what the step outputs; for the plain cell, in: the products
  float* c = nullptr;
  float* state = nullptr;  // with a mask: what the next step reads
};

// `gates` and `dgates` may be the same place.
struct CellBackward {
  CellBlock block;
  CellMask mask;
  const float* dh_out = nullptr;  // of the step's output; may be null, as h_prev and c_prev may
  const float* gates = nullptr;
  const float* h = nullptr;
  const float* c = nullptr;
  const float* h_prev = nullptr;
  const float* c_prev = nullptr;
  float* dh = nullptr;      // in: from the step behind; out: what reaches the step before other than by the weights
  float* dc = nullptr;      // the same for c
  float* dgates = nullptr;  // of the gates' sums
};

// Gates in torch's order. LSTM: i f g o. GRU: r z n, and in a fourth block what r is multiplied with; its dgates are
// [n by the input | r | z | n by the state], so that those of the state's product are side by side.
struct CellTable {
  void (*lstm_forward)(const CellForward& s);
  void (*lstm_backward)(const CellBackward& s);
  void (*lstm_gates)(const CellForward& s);  // only the gates, from their sums, of all rows
  void (*gru_forward)(const CellForward& s);
  void (*gru_backward)(const CellBackward& s);
  void (*gru_gates)(const CellForward& s);
  void (*tanh_forward)(const CellForward& s);
  void (*tanh_backward)(const CellBackward& s);
  void (*relu_forward)(const CellForward& s);
  void (*relu_backward)(const CellBackward& s);
  // sum[j] = sum[j] + src[first * ld + j] + src[(first + step) * ld + j] + ..., `rows` terms in that order; the same
  // for `also`. Either may be null.
  void (*sum_rows)(const float* src, std::int64_t ld, std::int64_t first, std::int64_t step, std::int64_t rows,
                   std::int64_t columns, float* sum, float* also);
};
NEAP_ISA_TABLE(CellTable, cell_table)

}  // namespace neap
