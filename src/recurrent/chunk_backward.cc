#include <omp.h>

#include <cstring>

#include "recurrent/chunk.h"
#include "recurrent/gear.h"
#include "recurrent/regate.h"
#include "recurrent/share.h"

namespace neap {
namespace {

// Blocks of `hidden` columns in dgates, and the first of those that belong to the state's product.
std::int64_t dgate_blocks(const ChunkShape& s) { return s.gate_blocks() == 0 ? 1 : s.gate_blocks(); }
std::int64_t state_block(const ChunkShape& s) { return s.kind == CellKind::kGru ? 1 : 0; }

struct Layout {
  float* dgates;  // [steps of a piece, batch, dgate_blocks * hidden]; before that the gates, where they are made again
  float* dh;      // [batch, hidden]
  float* dc;
  float* h_prev;   // [steps of a piece, batch, hidden]: the states before the steps, where they do not lie in h
  float* packed;   // w_hh; shares memory with the scratch and, without lengths, with h_prev
  float* scratch;  // of the products
  std::int64_t scratch_thread;  // of those within a step
  std::int64_t bytes;
};

Layout lay_out(const ChunkShape& s, std::byte* base) {
  const int threads = omp_get_max_threads();
  const std::int64_t weight_rows = s.weight_blocks() * s.hidden;
  const std::int64_t rows = s.longest() * s.batch;
  Space space(base);
  Layout out{};
  out.dgates = space.floats(rows * dgate_blocks(s) * s.hidden);
  out.dh = space.floats(s.batch * s.hidden);
  out.dc = space.floats(s.kind == CellKind::kLstm ? s.batch * s.hidden : 0);
  if (s.is_masked) out.h_prev = space.floats(rows * s.hidden);
  const std::int64_t mark = space.mark();
  if (s.longest() > 1) {
    out.packed = space.floats(static_cast<std::int64_t>(packed_b_bytes(weight_rows, s.hidden) / sizeof(float)));
    space.back_to(mark);
  }
  if (!s.is_masked) out.h_prev = space.floats(rows * s.hidden);
  const std::size_t step = gemm_scratch_bytes({s.batch, s.hidden, weight_rows});
  const std::size_t scratch =
      std::max({gemm_scratch_bytes({weight_rows, s.input, rows}, threads),
                gemm_scratch_bytes({weight_rows, s.hidden, rows}, threads),
                gemm_scratch_bytes({rows, s.input, weight_rows}, threads),
                s.keeps_gates ? 0 : regate_scratch(s, threads), step * static_cast<std::size_t>(threads)});
  out.scratch_thread = static_cast<std::int64_t>(step / sizeof(float));
  out.scratch = space.floats(static_cast<std::int64_t>(scratch / sizeof(float)));
  out.bytes = space.bytes();
  return out;
}

void (*cell_of(CellKind kind))(const CellBackward&) {
  switch (kind) {
    case CellKind::kLstm: return cell_table().lstm_backward;
    case CellKind::kGru: return cell_table().gru_backward;
    case CellKind::kTanh: return cell_table().tanh_backward;
    case CellKind::kRelu: return cell_table().relu_backward;
  }
  return nullptr;
}

// Puts the sum to go on from into its place; says whether there is one.
bool start_sum(const float* from, float* to, std::int64_t n) {
  if (from == nullptr) return false;
  if (from != to) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  return true;
}

// `rows` rows in the order in which weight gradients are summed: the step computed last comes first.
struct Rows {
  std::int64_t first, step, count;
  GemmOperand of(const float* data, std::int64_t ld, bool transposed = false) const {
    return {data + first * ld, step * ld, transposed};
  }
  GemmOperand of_given(const ChunkShape& s, const float* data, std::int64_t ld) const {
    return given_operand(s, data, first * ld, step * ld);
  }
};

class Backward {
 public:
  Backward(const ChunkShape& s, const ChunkBackward& b, std::byte* workspace)
      : s_(s), b_(b), space_(lay_out(s, workspace)), cell_(cell_of(s.kind)), plane_(s.batch * s.hidden) {
    columns_ = dgate_blocks(s) * s.hidden;
  }

  void run(const Gear& gear) {
    for (std::int64_t to = s_.steps; to > 0; to = piece_.from) {
      piece_ = piece_to(gear, s_, to);
      lowest_ = s_.reverse ? s_.time(piece_.to - 1) : piece_.from;
      run_steps();
      run_products();
    }
    hand_on();
  }

 private:
  bool is_first() const { return piece_.to == s_.steps; }
  bool makes_gates() const { return b_.gates == nullptr && s_.gate_blocks() > 0; }

  void run_steps() {
    if (s_.is_masked) gather_states();
    if (makes_gates()) make_gates();
    const bool is_packed = piece_.steps() > 1;
    if (is_packed) pack_b_parallel(given_operand(s_, b_.w_hh, 0, s_.hidden), weight_rows(), s_.hidden, space_.packed);
    StepBarrier barrier;
#pragma omp parallel num_threads(step_threads(s_.batch* weight_rows() * s_.hidden, omp_get_max_threads()))
    {
      const CellBlock block = share_of(omp_get_thread_num(), omp_get_num_threads(), s_.batch, s_.hidden);
      float* scratch = space_.scratch + omp_get_thread_num() * space_.scratch_thread;
      if (is_first()) for_rows(block, b_.dh_last, space_.dh);
      if (is_first() && s_.kind == CellKind::kLstm) for_rows(block, b_.dc_last, space_.dc);
      for (std::int64_t i = piece_.to - 1; i >= piece_.from; --i) {
        apply_cell(i, block);
        barrier.wait(omp_get_num_threads());
        if (i > 0 || b_.dh0 != nullptr) multiply_state(i, block, is_packed ? nullptr : scratch);
      }
    }
  }

  void run_products() const {
    if (b_.dw_ih != nullptr && b_.x != nullptr) input_weights();
    if (b_.dw_hh != nullptr && b_.h != nullptr) state_weights();
    if (b_.dx != nullptr) input();
    biases();
  }

  // Where the gates' gradients of step i lie: the piece's steps in the order of time.
  std::int64_t in_piece(std::int64_t i) const { return s_.time(i) - lowest_; }
  std::int64_t weight_rows() const { return s_.weight_blocks() * s_.hidden; }
  float* dgates(std::int64_t i) const { return space_.dgates + in_piece(i) * s_.batch * columns_; }
  const float* at_step(const float* data, std::int64_t i) const {
    return data == nullptr ? nullptr : data + s_.time(i) * plane_;
  }
  const float* state_before(std::int64_t i) const {
    if (s_.is_masked) return space_.h_prev + in_piece(i) * plane_;
    return i == 0 ? b_.h0 : at_step(b_.h, i - 1);
  }
  bool has_ended(std::int64_t time, std::int64_t row) const {
    return b_.lengths != nullptr && s_.start + time >= b_.lengths[row];
  }

  // dst = src, or zeros, on the block.
  void for_rows(const CellBlock& block, const float* src, float* dst) const {
    const auto bytes = static_cast<std::size_t>(block.unit_end - block.unit) * sizeof(float);
    for (std::int64_t r = block.row; r < block.row_end; ++r) {
      const std::int64_t at = r * s_.hidden + block.unit;
      if (src == nullptr) {
        std::memset(dst + at, 0, bytes);
      } else {
        std::memcpy(dst + at, src + at, bytes);
      }
    }
  }

  void apply_cell(std::int64_t i, const CellBlock& block) const {
    if (block.unit == block.unit_end) return;
    CellBackward cell{.block = block, .mask = {b_.lengths, s_.start + s_.time(i)}};
    cell.dh_out = at_step(b_.dh, i);
    cell.h = at_step(b_.h, i);
    cell.h_prev = state_before(i);
    cell.dh = space_.dh;
    cell.dgates = dgates(i);
    if (b_.gates != nullptr) cell.gates = b_.gates + s_.time(i) * s_.batch * s_.gate_blocks() * s_.hidden;
    if (makes_gates()) cell.gates = cell.dgates;
    if (s_.kind == CellKind::kLstm) {
      cell.c = at_step(b_.c, i);
      cell.c_prev = i == 0 ? b_.c0 : at_step(b_.c, i - 1);
      cell.dc = space_.dc;
    }
    cell_(cell);
  }

  // dh += dgates * w_hh, on the block's units; with w_hh packed, or where it lies.
  void multiply_state(std::int64_t i, const CellBlock& block, float* scratch) const {
    const GemmShape shape = {block.row_end - block.row, block.unit_end - block.unit, weight_rows(), s_.is_bf16};
    const float* from = dgates(i) + block.row * columns_ + state_block(s_) * s_.hidden;
    const GemmOutput to = {space_.dh + block.row * s_.hidden + block.unit, s_.hidden, true};
    if (scratch == nullptr) {
      gemm_packed(shape, {from, columns_}, packed_columns(space_.packed, weight_rows(), block.unit, s_.is_bf16), to);
    } else {
      gemm(shape, {from, columns_}, given_operand(s_, b_.w_hh, block.unit, s_.hidden), to, scratch);
    }
  }

  void hand_on() const {
    const auto bytes = static_cast<std::size_t>(plane_) * sizeof(float);
    if (b_.dh0 != nullptr) std::memcpy(b_.dh0, space_.dh, bytes);
    if (b_.dc0 != nullptr) std::memcpy(b_.dc0, space_.dc, bytes);
  }

  // The state before each step, with lengths: rows that have not begun yet (in reverse) still have h0.
  void gather_states() const {
    for (std::int64_t i = piece_.from; i < piece_.to; ++i) {
      for (std::int64_t r = 0; r < s_.batch; ++r) {
        const bool is_first = i == 0 || (s_.reverse && has_ended(s_.time(i - 1), r));
        const float* from = is_first ? b_.h0 : at_step(b_.h, i - 1);
        float* to = space_.h_prev + in_piece(i) * plane_ + r * s_.hidden;
        const auto bytes = static_cast<std::size_t>(s_.hidden) * sizeof(float);
        if (from == nullptr) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, from + r * s_.hidden, bytes);
        }
      }
    }
  }

  // Rows of steps [from, to) in the order of computation.
  Rows rows(std::int64_t from, std::int64_t to) const {
    const std::int64_t count = (to - from) * s_.batch;
    if (s_.reverse) return {(s_.steps - to) * s_.batch, 1, count};
    return {to * s_.batch - 1, -1, count};
  }

  // The same rows, counted from the first of the piece.
  Rows inside(const Rows& r) const { return {r.first - lowest_ * s_.batch, r.step, r.count}; }

  // Whether a sum goes on: from what is given, or from the pieces behind this one.
  bool goes_on(const float* from, float* to, std::int64_t n) const { return !is_first() || start_sum(from, to, n); }

  // dw[row of `blocks` from `to_block` on] += dgates[its columns from `from_block` on]' * src
  void weights(std::int64_t from_block, std::int64_t to_block, std::int64_t blocks, const Rows& dgate_rows,
               const GemmOperand& src, std::int64_t width, float* dw, bool accumulate) const {
    const GemmOperand a = inside(dgate_rows).of(space_.dgates + from_block * s_.hidden, columns_, true);
    gemm_parallel({blocks * s_.hidden, width, dgate_rows.count, s_.is_bf16}, a, src,
                  {dw + to_block * s_.hidden * width, width, accumulate}, space_.scratch);
  }

  void input_weights() const {
    const bool accumulate = goes_on(b_.dw_ih_in, b_.dw_ih, weight_rows() * s_.input);
    const Rows all = rows(piece_.from, piece_.to);
    const GemmOperand x = all.of_given(s_, b_.x, s_.input);
    if (s_.kind == CellKind::kGru) {
      weights(1, 0, 2, all, x, s_.input, b_.dw_ih, accumulate);
      weights(0, 2, 1, all, x, s_.input, b_.dw_ih, accumulate);
    } else {
      weights(0, 0, s_.weight_blocks(), all, x, s_.input, b_.dw_ih, accumulate);
    }
  }

  void state_weights() const {
    const bool accumulate = goes_on(b_.dw_hh_in, b_.dw_hh, weight_rows() * s_.hidden);
    Rows of_dgates = rows(piece_.from, piece_.to);
    GemmOperand states = inside(of_dgates).of(space_.h_prev, s_.hidden);
    if (!s_.is_masked && piece_.from > 0) {
      states = rows(piece_.from - 1, piece_.to - 1).of(b_.h, s_.hidden);
    } else if (!s_.is_masked && b_.h0 != nullptr) {
      const auto step = static_cast<std::size_t>(plane_) * sizeof(float);
      float* behind = space_.h_prev + (s_.reverse ? 0 : plane_);
      const float* before = b_.h + (s_.reverse ? (lowest_ + 1) * plane_ : 0);
      std::memcpy(behind, before, step * static_cast<std::size_t>(piece_.steps() - 1));
      std::memcpy(space_.h_prev + in_piece(0) * plane_, b_.h0, step);
    } else if (!s_.is_masked) {  // the first step's state is zero: its rows add nothing
      of_dgates = rows(1, piece_.to);
      states = rows(0, piece_.to - 1).of(b_.h, s_.hidden);
    }
    weights(state_block(s_), 0, s_.weight_blocks(), of_dgates, states, s_.hidden, b_.dw_hh, accumulate);
  }

  // dx = dgates * w_ih
  void input() const {
    const auto multiply = [&](std::int64_t from_block, std::int64_t to_block, std::int64_t blocks, bool accumulate) {
      gemm_parallel({piece_.steps() * s_.batch, s_.input, blocks * s_.hidden, s_.is_bf16},
                    {space_.dgates + from_block * s_.hidden, columns_},
                    given_operand(s_, b_.w_ih, to_block * s_.hidden * s_.input, s_.input),
                    {b_.dx + lowest_ * s_.batch * s_.input, s_.input, accumulate}, space_.scratch);
    };
    if (s_.kind == CellKind::kGru) {
      multiply(1, 0, 2, false);
      multiply(0, 2, 1, true);
    } else {
      multiply(0, 0, s_.weight_blocks(), false);
    }
  }

  // The piece's gates into the place of their gradients.
  void make_gates() const {
    regate(s_, b_, piece_, lowest_, s_.is_masked ? space_.h_prev : nullptr, space_.dgates, space_.scratch);
  }

  void biases() const {
    const auto begin = [&](const float* from, float* to) {
      if (to != nullptr && !goes_on(from, to, weight_rows())) {
        std::memset(to, 0, static_cast<std::size_t>(weight_rows()) * sizeof(float));
      }
    };
    begin(b_.db_ih_in, b_.db_ih);
    begin(b_.db_hh_in, b_.db_hh);
    const std::int64_t shared = s_.kind == CellKind::kGru ? 2 : s_.weight_blocks();
    sum_columns(state_block(s_), 0, shared, b_.db_ih, b_.db_hh);
    if (s_.kind == CellKind::kGru) {
      sum_columns(0, 2, 1, b_.db_ih, nullptr);
      sum_columns(3, 2, 1, nullptr, b_.db_hh);
    }
  }

  void sum_columns(std::int64_t from_block, std::int64_t to_block, std::int64_t blocks, float* sum, float* also) const {
    if (sum == nullptr && also == nullptr) return;
    constexpr std::int64_t kWidth = 256;  // columns whose sums stay in the L1 cache
    const Rows all = inside(rows(piece_.from, piece_.to));
    const std::int64_t columns = blocks * s_.hidden;
#pragma omp parallel for schedule(static)
    for (std::int64_t j = 0; j < columns; j += kWidth) {
      const std::int64_t to = to_block * s_.hidden + j;
      cell_table().sum_rows(space_.dgates + from_block * s_.hidden + j, columns_, all.first, all.step, all.count,
                            std::min(kWidth, columns - j), sum == nullptr ? nullptr : sum + to,
                            also == nullptr ? nullptr : also + to);
    }
  }

  const ChunkShape& s_;
  const ChunkBackward& b_;
  Layout space_;
  void (*cell_)(const CellBackward&);
  std::int64_t plane_;        // elements of one step's h
  std::int64_t columns_ = 0;  // of one row of dgates
  Piece piece_;
  std::int64_t lowest_ = 0;  // the earliest time of the piece
};

}  // namespace

std::int64_t backward_workspace(const ChunkShape& shape) { return lay_out(shape, nullptr).bytes; }

void run_backward(const ChunkShape& shape, const ChunkBackward& b, std::byte* workspace, const Gear& gear) {
  Backward(shape, b, workspace).run(gear);
}

}  // namespace neap
