#include "recurrent/regate.h"

#include <algorithm>

#include "device/cpu/gemm.h"
#include "recurrent/cell_simd.h"
#include "recurrent/share.h"

namespace neap {
namespace {

class Regate {
 public:
  Regate(const ChunkShape& s, const ChunkBackward& b, float* gates, float* scratch)
      : s_(s), b_(b), gates_(gates), scratch_(scratch) {}

  void multiply_input(std::int64_t steps, std::int64_t lowest) const {
    gemm_parallel({steps * s_.batch, s_.weight_blocks() * s_.hidden, s_.input, s_.is_bf16},
                  given_operand(s_, b_.x, lowest * s_.batch * s_.input, s_.input),
                  given_operand(s_, b_.w_ih, 0, s_.input, true), {gates_, columns()}, scratch_);
  }

  // The states' products of `steps` steps from place `at` of the piece on. Null states are none at all: forward then
  // leaves the product out, too.
  void multiply_states(std::int64_t at, std::int64_t steps, const float* states) const {
    if (steps == 0) return;
    const auto multiply = [&](std::int64_t block, std::int64_t blocks, std::int64_t to_block, bool accumulate) {
      const GemmShape shape = {steps * s_.batch, blocks * s_.hidden, states == nullptr ? 0 : s_.hidden, s_.is_bf16};
      float* to = gates_ + at * s_.batch * columns() + to_block * s_.hidden;
      gemm_parallel(shape, {states, s_.hidden},
                    given_operand(s_, b_.w_hh, block * s_.hidden * s_.hidden, s_.hidden, true),
                    {to, columns(), accumulate}, scratch_);
    };
    const bool is_gru = s_.kind == CellKind::kGru;
    if (states != nullptr) multiply(0, is_gru ? 2 : 4, 0, true);
    if (is_gru) multiply(2, 1, 3, false);  // r applies to this product alone
  }

  void activate(std::int64_t steps) const {
    const auto cell = s_.kind == CellKind::kGru ? cell_table().gru_gates : cell_table().lstm_gates;
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < steps * s_.batch; ++row) {
      cell({.block = {.row = row, .row_end = row + 1, .unit_end = s_.hidden, .hidden = s_.hidden},
            .b_ih = b_.b_ih,
            .b_hh = b_.b_hh,
            .gates = gates_});
    }
  }

 private:
  std::int64_t columns() const { return s_.gate_blocks() * s_.hidden; }

  const ChunkShape& s_;
  const ChunkBackward& b_;
  float* gates_;
  float* scratch_;
};

}  // namespace

std::size_t regate_scratch(const ChunkShape& s, int threads) {
  const std::int64_t rows = s.longest() * s.batch;
  const std::int64_t columns = s.weight_blocks() * s.hidden;
  return std::max(gemm_scratch_bytes({rows, columns, s.input}, threads),
                  gemm_scratch_bytes({rows, columns, s.hidden}, threads));
}

void regate(const ChunkShape& s, const ChunkBackward& b, const Piece& piece, std::int64_t lowest, const float* h_prev,
            float* gates, float* scratch) {
  const std::int64_t plane = s.batch * s.hidden;
  const bool has_first = piece.from == 0;
  const Regate work(s, b, gates, scratch);
  work.multiply_input(piece.steps(), lowest);
  // Steps that follow another in this chunk, in the order of time; the very first has the state that came in.
  const std::int64_t others = has_first ? piece.steps() - 1 : piece.steps();
  const std::int64_t others_at = has_first && !s.reverse ? 1 : 0;
  const std::int64_t before = lowest + others_at + (s.reverse ? 1 : -1);
  work.multiply_states(others_at, others, h_prev != nullptr ? h_prev + others_at * plane : b.h + before * plane);
  if (has_first) work.multiply_states(s.time(0) - lowest, 1, b.h0);
  work.activate(piece.steps());
}

}  // namespace neap
