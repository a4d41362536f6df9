// rnn_chunk(x, w_ih, w_hh, b_ih?, b_hh?, lengths?, h0?) -> h, h_last?: some steps of a plain recurrent layer.
#include "ops/rnn/chunk_op.h"

namespace neap::ops {
namespace {

using Ops = ChunkOps<ChunkFamily::kRnn>;

Values gradient(GradientCall& c) { return chunk_gradient(ChunkFamily::kRnn, "rnn_chunk_grad", c); }

}  // namespace

extern constinit const OpDef rnn_chunk = Ops::forward("rnn_chunk", gradient);
extern constinit const OpDef rnn_chunk_grad = Ops::backward("rnn_chunk_grad");

}  // namespace neap::ops
