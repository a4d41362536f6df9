#include <cmath>

#include "ops/rnn/chunk_testing.h"

namespace neap {
namespace {

const ChunkCase kCase = {.op = "gru_chunk", .blocks = 3};

TEST(GruChunk, KernelsAgreeAndGradientHolds) { check_chunk(kCase); }

TEST(GruChunk, MakesGatesAgain) { check_chunk_regated(kCase); }

TEST(GruChunk, GradientGoesOnFromSums) { check_chunk_grad(kCase); }

// One unit, one step, by hand: gates in the order r, z, n; r applies to the state's product and its bias.
TEST(GruChunk, ResetGateAppliesBehindTheProduct) {
  ChunkCase c = kCase;
  c.steps = c.batch = c.input = c.hidden = 1;
  OpCase op = op_case(c);
  const auto set = [&](std::size_t i, std::vector<float> values) {
    op.given[i] = HostTensor(op.inputs[i]);
    std::copy(values.begin(), values.end(), op.given[i].floats());
  };
  set(0, {0.5F});
  set(1, {1, 2, 3});
  set(2, {0.1F, 0.2F, 0.3F});
  set(3, {0.01F, 0.02F, 0.03F});
  set(4, {0.001F, 0.002F, 0.003F});
  set(6, {0.7F});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double r = sigmoid(0.5 + 0.07 + 0.01 + 0.001);
  const double z = sigmoid(2 * (0.5 + 0.07 + 0.01 + 0.001));
  const double n = std::tanh(1.5 + 0.03 + r * (0.21 + 0.003));
  EXPECT_NEAR(run_op(op)[0].floats()[0], (1 - z) * n + z * 0.7, 1e-6);
}

}  // namespace
}  // namespace neap
