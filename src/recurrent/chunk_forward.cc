#include <omp.h>

#include <cstring>

#include "recurrent/chunk.h"
#include "recurrent/gear.h"
#include "recurrent/share.h"

namespace neap {
namespace {

struct Layout {
  float* packed;  // w_hh', one packed matrix a block; not where every piece has one step
  std::int64_t packed_block;
  float* sums;  // the gates of `sums_steps` steps, where nobody keeps them
  std::int64_t sums_steps;
  float* state[2];  // with lengths: the states before and behind a step
  float* c;         // where nobody keeps it
  float* scratch;   // of products
  std::int64_t scratch_thread;
  std::int64_t bytes;
};

GemmShape input_product(const ChunkShape& s, std::int64_t steps) {
  return {steps * s.batch, s.weight_blocks() * s.hidden, s.input, s.is_bf16};
}

Layout lay_out(const ChunkShape& s, std::byte* base) {
  const int threads = omp_get_max_threads();
  Space space(base);
  Layout out{};
  if (s.longest() > 1) {
    out.packed_block = static_cast<std::int64_t>(packed_b_bytes(s.hidden, s.hidden) / sizeof(float));
    out.packed = space.floats(out.packed_block * s.weight_blocks());
  }
  out.sums_steps = s.keeps_gates ? 1 : s.longest();
  out.sums = space.floats(out.sums_steps * s.batch * s.gate_blocks() * s.hidden);
  for (float*& state : out.state) state = space.floats(s.is_masked ? s.batch * s.hidden : 0);
  out.c = space.floats(s.kind == CellKind::kLstm ? s.batch * s.hidden : 0);
  const std::size_t scratch =
      std::max(gemm_scratch_bytes(input_product(s, s.longest())), gemm_scratch_bytes({s.batch, s.hidden, s.hidden}));
  out.scratch_thread = static_cast<std::int64_t>(scratch / sizeof(float));
  out.scratch = space.floats(out.scratch_thread * threads);
  out.bytes = space.bytes();
  return out;
}

void (*cell_of(CellKind kind))(const CellForward&) {
  switch (kind) {
    case CellKind::kLstm: return cell_table().lstm_forward;
    case CellKind::kGru: return cell_table().gru_forward;
    case CellKind::kTanh: return cell_table().tanh_forward;
    case CellKind::kRelu: return cell_table().relu_forward;
  }
  return nullptr;
}

class Forward {
 public:
  Forward(const ChunkShape& s, const ChunkForward& b, std::byte* workspace)
      : s_(s), b_(b), space_(lay_out(s, workspace)), cell_(cell_of(s.kind)), plane_(s.batch * s.hidden) {
    is_plain_ = s.gate_blocks() == 0;
    columns_ = is_plain_ ? s.hidden : s.gate_blocks() * s.hidden;
  }

  void run(const Gear& gear) {
    for (std::int64_t from = 0; from < s_.steps; from = piece_.to) {
      piece_ = piece_from(gear, s_, from);
      run_piece();
    }
    hand_on();
  }

 private:
  void run_piece() {
    sums_in_ = s_.reverse ? s_.time(piece_.to - 1) : piece_.from;
    multiply_input();
    if (piece_.steps() > 1 && !is_packed_) pack();
    StepBarrier barrier;
    const std::int64_t work = s_.batch * s_.weight_blocks() * s_.hidden * s_.hidden;
#pragma omp parallel num_threads(step_threads(work, omp_get_max_threads()))
    {
      const CellBlock block = share_of(omp_get_thread_num(), omp_get_num_threads(), s_.batch, s_.hidden);
      for (std::int64_t i = piece_.from; i < piece_.to; ++i) {
        step(i, block, space_.scratch + omp_get_thread_num() * space_.scratch_thread);
        if (i + 1 < piece_.to) barrier.wait(omp_get_num_threads());
      }
    }
  }

  // For this piece and those to come.
  void pack() {
    for (std::int64_t g = 0; g < s_.weight_blocks(); ++g) {
      const GemmOperand block = given_operand(s_, b_.w_hh, g * s_.hidden * s_.hidden, s_.hidden, true);
      pack_b_parallel(block, s_.hidden, s_.hidden, space_.packed + g * space_.packed_block);
    }
    is_packed_ = true;
  }

  // Where the sums of step i's gates are made.
  float* sums(std::int64_t i) const {
    if (is_plain_) return b_.h + s_.time(i) * plane_;
    if (b_.gates != nullptr) return b_.gates + s_.time(i) * s_.batch * columns_;
    return space_.sums + (piece_.steps() <= space_.sums_steps ? s_.time(i) - sums_in_ : 0) * s_.batch * columns_;
  }
  bool has_room() const { return is_plain_ || b_.gates != nullptr || piece_.steps() <= space_.sums_steps; }
  const float* state(std::int64_t i) const {  // behind step i
    if (i < 0) return b_.h0;
    return s_.is_masked ? space_.state[i % 2] : b_.h + s_.time(i) * plane_;
  }
  float* c(std::int64_t i) const { return b_.c == nullptr ? space_.c : b_.c + s_.time(i) * plane_; }

  void multiply_input() const {
    if (!has_room()) return;
    const std::int64_t first = s_.reverse ? piece_.to - 1 : piece_.from;
    gemm_parallel(input_product(s_, piece_.steps()), given_operand(s_, b_.x, sums_in_ * s_.batch * s_.input, s_.input),
                  given_operand(s_, b_.w_ih, 0, s_.input, true), {sums(first), columns_}, space_.scratch);
  }

  // Without room for all steps' products, each step makes its own: the same bits, for a row's do not depend on others.
  void multiply_step_input(std::int64_t i, const CellBlock& block, float* scratch) const {
    const GemmShape shape = {block.row_end - block.row, block.unit_end - block.unit, s_.input, s_.is_bf16};
    const GemmOperand x = given_operand(s_, b_.x, (s_.time(i) * s_.batch + block.row) * s_.input, s_.input);
    for (std::int64_t g = 0; g < s_.weight_blocks(); ++g) {
      const std::int64_t column = g * s_.hidden + block.unit;
      gemm(shape, x, given_operand(s_, b_.w_ih, column * s_.input, s_.input, true),
           {sums(i) + block.row * columns_ + column, columns_}, scratch);
    }
  }

  void multiply_state(std::int64_t i, const CellBlock& block, float* scratch) const {
    const float* from = state(i - 1);
    const bool has_state = from != nullptr;
    const GemmShape shape = {block.row_end - block.row, block.unit_end - block.unit, has_state ? s_.hidden : 0,
                             s_.is_bf16};
    const GemmOperand states = {has_state ? from + block.row * s_.hidden : nullptr, s_.hidden};
    for (std::int64_t g = 0; g < s_.weight_blocks(); ++g) {
      const bool is_apart = s_.kind == CellKind::kGru && g == 2;  // r applies to this product alone
      if (!has_state && !is_apart) continue;
      const std::int64_t column = (is_apart ? 3 : g) * s_.hidden + block.unit;
      const GemmOutput to = {sums(i) + block.row * columns_ + column, columns_, !is_apart};
      if (is_packed_) {
        const float* packed = space_.packed + g * space_.packed_block;
        gemm_packed(shape, states, packed_columns(packed, s_.hidden, block.unit, s_.is_bf16), to);
      } else {
        const std::int64_t row = g * s_.hidden + block.unit;
        gemm(shape, states, given_operand(s_, b_.w_hh, row * s_.hidden, s_.hidden, true), to, scratch);
      }
    }
  }

  void step(std::int64_t i, const CellBlock& block, float* scratch) const {
    if (block.unit == block.unit_end) return;
    if (!has_room()) multiply_step_input(i, block, scratch);
    multiply_state(i, block, scratch);
    CellForward cell{.block = block, .mask = {b_.lengths, s_.start + s_.time(i)}, .b_ih = b_.b_ih, .b_hh = b_.b_hh};
    cell.h_prev = state(i - 1);
    cell.h = b_.h + s_.time(i) * plane_;
    if (!is_plain_) cell.gates = sums(i);
    if (s_.kind == CellKind::kLstm) {
      cell.c_prev = i == 0 ? b_.c0 : c(i - 1);
      cell.c = c(i);
    }
    if (s_.is_masked) cell.state = space_.state[i % 2];
    cell_(cell);
  }

  void hand_on() const {
    const std::int64_t last = s_.steps - 1;
    const auto bytes = static_cast<std::size_t>(plane_) * sizeof(float);
    if (b_.h_last != nullptr) std::memcpy(b_.h_last, state(last), bytes);
    if (b_.c_last != nullptr) std::memcpy(b_.c_last, c(last), bytes);
  }

  const ChunkShape& s_;
  const ChunkForward& b_;
  Layout space_;
  void (*cell_)(const CellForward&);
  std::int64_t plane_;        // elements of one step's h
  std::int64_t columns_ = 0;  // of one row of sums
  bool is_plain_ = false;
  bool is_packed_ = false;
  Piece piece_;
  std::int64_t sums_in_ = 0;  // the earliest time of the piece
};

}  // namespace

std::int64_t forward_workspace(const ChunkShape& shape) { return lay_out(shape, nullptr).bytes; }

void run_forward(const ChunkShape& shape, const ChunkForward& b, std::byte* workspace, const Gear& gear) {
  Forward(shape, b, workspace).run(gear);
}

}  // namespace neap
