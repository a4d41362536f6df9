#include "ops/rnn/chunk_testing.h"

namespace neap {
namespace {

const ChunkCase kCase = {.op = "rnn_chunk", .blocks = 1, .activation = "tanh"};

TEST(RnnChunk, KernelsAgreeAndGradientHolds) { check_chunk(kCase); }

TEST(RnnChunk, GradientGoesOnFromSums) { check_chunk_grad(kCase); }

TEST(RnnChunk, Relu) {
  ChunkCase c = kCase;
  c.activation = "relu";
  check_kernels(op_case(c));
  check_chunk_grad(c);
  OpCase smooth = op_case(c);  // away from the corner
  smooth.low = 0.1;
  smooth.high = 0.5;
  check_op(smooth);
}

TEST(RnnChunk, RefusesAnotherActivation) {
  ChunkCase c = kCase;
  c.activation = "sine";
  EXPECT_THROW(run_op(op_case(c)), UserError);
}

}  // namespace
}  // namespace neap
