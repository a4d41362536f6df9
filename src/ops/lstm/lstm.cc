// lstm_chunk(x, w_ih, w_hh, b_ih?, b_hh?, lengths?, h0?, c0?) -> h, h_last?, gates?, c?, c_last?: some steps of an
// LSTM.
#include "ops/rnn/chunk_op.h"

namespace neap::ops {
namespace {

using Ops = ChunkOps<ChunkFamily::kLstm>;

Values gradient(GradientCall& c) { return chunk_gradient(ChunkFamily::kLstm, "lstm_chunk_grad", c); }

}  // namespace

extern constinit const OpDef lstm_chunk = Ops::forward("lstm_chunk", gradient);
extern constinit const OpDef lstm_chunk_grad = Ops::backward("lstm_chunk_grad");

}  // namespace neap::ops
