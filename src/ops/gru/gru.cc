// gru_chunk(x, w_ih, w_hh, b_ih?, b_hh?, lengths?, h0?) -> h, h_last?, gates?: some steps of a GRU as torch has it,
// whose reset gate applies behind the product with the state.
#include "ops/rnn/chunk_op.h"

namespace neap::ops {
namespace {

using Ops = ChunkOps<ChunkFamily::kGru>;

Values gradient(GradientCall& c) { return chunk_gradient(ChunkFamily::kGru, "gru_chunk_grad", c); }

}  // namespace

extern constinit const OpDef gru_chunk = Ops::forward("gru_chunk", gradient);
extern constinit const OpDef gru_chunk_grad = Ops::backward("gru_chunk_grad");

}  // namespace neap::ops
