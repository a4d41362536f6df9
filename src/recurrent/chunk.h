// A chunk: some steps of a recurrent layer as one unit of work.
//
// Forward, the input's product with w_ih is one matrix product over all steps; then each step adds the state's product
// with w_hh, which is packed once a chunk, and applies the gates. Backward goes through the steps the other way, keeps
// the gates' gradients in its workspace only, and ends with one matrix product a weight.
//
// How many steps are taken as one piece is the gear's to say (recurrent/gear.h), for each chunk anew. A piece of one
// step needs no packed matrix and the least workspace. Where the gates were not kept, backward makes those of a piece
// again from x and h: all states are known, so it is one product over the piece and not one a step.
//
// Every number is one chain of additions in a fixed order (see device/cpu/gemm.h), and weight gradients go on from the
// sum of the chunks behind, last step first. So no bit of any result depends on how a sequence is cut into chunks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neap {

enum class CellKind : std::uint8_t { kLstm, kGru, kTanh, kRelu };

struct ChunkShape {
  CellKind kind = CellKind::kLstm;
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0;
  bool reverse = false;     // the last step comes first
  bool is_masked = false;   // there are lengths
  std::int64_t start = 0;   // the chunk's first step in the sequence: what lengths are compared with
  std::int64_t most = 0;    // steps that a piece may have, for which workspace is booked; 0: all
  bool keeps_gates = true;  // for backward
  bool is_tf32 = false;     // on a GPU, products of f32 (ops/product_math.h)
  bool is_bf16 = false;     // x, w_ih and w_hh are, and what meets them is rounded; the batch is even

  std::int64_t longest() const { return most > 0 && most < steps ? most : steps; }

  // Blocks of `hidden` rows in w_ih, w_hh and the biases.
  std::int64_t weight_blocks() const { return kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1; }
  // Blocks of `hidden` columns in the gates that backward reads.
  std::int64_t gate_blocks() const { return kind == CellKind::kLstm || kind == CellKind::kGru ? 4 : 0; }
  std::int64_t rows() const { return steps * batch; }
  // The time of the i-th step to be computed.
  std::int64_t time(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// Gates in torch's order: i f g o; r z n. With is_bf16, x, w_ih and w_hh point to bf16. Optional ones are null when
// they are not there; a missing state is zero.
struct ChunkForward {
  const float* x = nullptr;     // [steps, batch, input]
  const float* w_ih = nullptr;  // [blocks * hidden, input]
  const float* w_hh = nullptr;  // [blocks * hidden, hidden]
  const float* b_ih = nullptr;  // optional, [blocks * hidden]
  const float* b_hh = nullptr;
  const std::int32_t* lengths = nullptr;  // optional, [batch]
  const float* h0 = nullptr;              // optional, [batch, hidden]
  const float* c0 = nullptr;
  float* h = nullptr;       // [steps, batch, hidden]
  float* h_last = nullptr;  // optional, [batch, hidden]: the state behind the last step
  float* gates = nullptr;   // optional, [steps, batch, 4 * hidden]: i f g o; r z n and n's share of the state
  float* c = nullptr;       // optional, [steps, batch, hidden]
  float* c_last = nullptr;
};

struct ChunkBackward {
  const float* dh = nullptr;       // optional, [steps, batch, hidden]
  const float* dh_last = nullptr;  // optional, [batch, hidden]
  const float* dc_last = nullptr;
  const float* x = nullptr;  // needed for dw_ih
  const float* w_ih = nullptr;
  const float* w_hh = nullptr;
  const float* b_ih = nullptr;  // the biases: needed only without gates
  const float* b_hh = nullptr;
  const std::int32_t* lengths = nullptr;
  const float* h0 = nullptr;
  const float* c0 = nullptr;
  const float* h = nullptr;  // LSTM with gates: needed for dw_hh only
  const float* c = nullptr;
  const float* gates = nullptr;  // null: they are made again, from x and h
  // The sums that weight gradients start from: null, another place, or the result's own.
  const float* dw_ih_in = nullptr;
  const float* dw_hh_in = nullptr;
  const float* db_ih_in = nullptr;
  const float* db_hh_in = nullptr;
  // All optional.
  float* dw_ih = nullptr;
  float* dw_hh = nullptr;
  float* db_ih = nullptr;
  float* db_hh = nullptr;
  float* dx = nullptr;
  float* dh0 = nullptr;
  float* dc0 = nullptr;
};

struct Gear;

// Workspace in bytes, for as many threads as OpenMP would take now and any gear.
std::int64_t forward_workspace(const ChunkShape& shape);
std::int64_t backward_workspace(const ChunkShape& shape);
void run_forward(const ChunkShape& shape, const ChunkForward& b, std::byte* workspace, const Gear& gear);
void run_backward(const ChunkShape& shape, const ChunkBackward& b, std::byte* workspace, const Gear& gear);

// The same, slow and obvious, summing in double.
std::int64_t forward_workspace_ref(const ChunkShape& shape);
std::int64_t backward_workspace_ref(const ChunkShape& shape);
void run_forward_ref(const ChunkShape& shape, const ChunkForward& b, std::byte* workspace);
void run_backward_ref(const ChunkShape& shape, const ChunkBackward& b, std::byte* workspace);

}  // namespace neap
