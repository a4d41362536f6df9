#include <cmath>

#include "ops/rnn/chunk_testing.h"

namespace neap {
namespace {

const ChunkCase kCase = {.op = "lstm_chunk", .blocks = 4, .has_cell = true, .flows = {0, 1, 4}};

TEST(LstmChunk, KernelsAgreeAndGradientHolds) { check_chunk(kCase); }

// On the CPU the reference alone; on a GPU cuDNN's against it.
TEST(LstmChunk, KeepsNothingWhenItRunsAgain) {
  ChunkCase c = kCase;
  for (const bool has_bias : {true, false}) {
    for (const bool has_state : {true, false}) {
      c.has_bias = has_bias;
      c.has_state = has_state;
      OpCase op = op_case(c);
      op.attrs.set("gates", std::string("cudnn"));
      check_op(op);
      op.flows = {1};
      check_op(op);
    }
  }
  c.batch = 9;
  c.input = 50;
  c.hidden = 75;
  OpCase wide = op_case(c);
  wide.attrs.set("gates", std::string("cudnn"));
  wide.low = -0.3;
  wide.high = 0.3;
  check_kernels(wide);
  const auto plain = run_op(op_case(kCase), "ref");
  OpCase again = op_case(kCase);
  again.attrs.set("gates", std::string("cudnn"));
  const auto got = run_op(again, "ref");
  EXPECT_EQ(got[0].data, plain[0].data);
  EXPECT_EQ(got[4].data, plain[4].data);
  EXPECT_TRUE(got[2].data.empty());
  again.attrs.set("gates", std::string("lost"));
  EXPECT_THROW(run_op(again), UserError);
}

TEST(LstmChunk, MakesGatesAgain) { check_chunk_regated(kCase); }

TEST(LstmChunk, GradientGoesOnFromSums) { check_chunk_grad(kCase); }

// One unit, one step, by hand: gates in the order i, f, g, o.
TEST(LstmChunk, GateOrder) {
  ChunkCase c = kCase;
  c.steps = c.batch = c.input = c.hidden = 1;
  OpCase op = op_case(c);
  const auto set = [&](std::size_t i, std::vector<float> values) {
    op.given[i] = HostTensor(op.inputs[i]);
    std::copy(values.begin(), values.end(), op.given[i].floats());
  };
  set(0, {0.5F});
  set(1, {1, 2, 3, 4});
  set(2, {0.1F, 0.2F, 0.3F, 0.4F});
  set(3, {0.01F, 0.02F, 0.03F, 0.04F});
  set(4, {0.001F, 0.002F, 0.003F, 0.004F});
  set(6, {0.7F});
  set(7, {0.9F});
  const auto sum = [](double k) { return k * (0.5 + 0.07 + 0.01 + 0.001); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double cell = sigmoid(sum(2)) * 0.9 + sigmoid(sum(1)) * std::tanh(sum(3));
  const auto out = run_op(op);
  EXPECT_NEAR(out[3].floats()[0], cell, 1e-6);
  EXPECT_NEAR(out[0].floats()[0], sigmoid(sum(4)) * std::tanh(cell), 1e-6);
  EXPECT_EQ(out[0].data, out[1].data);
  EXPECT_EQ(out[3].data, out[4].data);
}

TEST(LstmChunk, RefusesWhatDoesNotFit) {
  for (std::size_t i = 1; i < 8; ++i) {
    ChunkCase c = kCase;
    c.has_lengths = true;
    OpCase op = op_case(c);
    op.inputs[i].shape[0] = 99;
    op.given.clear();
    EXPECT_THROW(run_op(op), UserError) << i;
  }
  OpCase flat = op_case(kCase);
  flat.inputs[0].shape = {3, 4};
  EXPECT_THROW(run_op(flat), UserError);
}

TEST(LstmChunk, GatesHaveNoGradient) {
  OpCase op = op_case(kCase);
  op.flows = {2};
  EXPECT_THROW(check_gradient(op), UserError);
}

}  // namespace
}  // namespace neap
