#include "recurrent/chunk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/random.h"
#include "recurrent/gear.h"

namespace neap {
namespace {

std::vector<float> random_floats(std::int64_t n, std::uint64_t key) {
  std::vector<float> out(static_cast<std::size_t>(n));
  RandomStream random(key);
  for (float& x : out) x = static_cast<float>(random.uniform() - 0.5);
  return out;
}

// Without room for gates and cells (nothing is to be differentiated) the outputs are the same to the bit.
TEST(Chunk, OutputsDoNotDependOnWhatIsKept) {
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kTanh, CellKind::kRelu}) {
    const ChunkShape s = {.kind = kind, .steps = 5, .batch = 7, .input = 33, .hidden = 70};
    const std::int64_t rows = s.weight_blocks() * s.hidden;
    const auto x = random_floats(s.rows() * s.input, 1);
    const auto w_ih = random_floats(rows * s.input, 2);
    const auto w_hh = random_floats(rows * s.hidden, 3);
    const auto bias = random_floats(rows, 4);
    const auto h0 = random_floats(s.batch * s.hidden, 5);
    std::vector<float> h(static_cast<std::size_t>(s.rows() * s.hidden));
    std::vector<float> c = h;
    std::vector<float> h_last(h0.size());
    std::vector<float> c_last(h0.size());
    std::vector<float> gates(static_cast<std::size_t>(s.rows() * 4 * s.hidden));
    std::vector<std::byte> workspace(static_cast<std::size_t>(forward_workspace(s)));
    ChunkForward b = {.x = x.data(),
                      .w_ih = w_ih.data(),
                      .w_hh = w_hh.data(),
                      .b_ih = bias.data(),
                      .h0 = h0.data(),
                      .c0 = h0.data(),
                      .h = h.data(),
                      .h_last = h_last.data(),
                      .gates = gates.data(),
                      .c = c.data(),
                      .c_last = kind == CellKind::kLstm ? c_last.data() : nullptr};
    run_forward(s, b, workspace.data(), {});
    const auto all = h;
    const auto last = h_last;
    const auto last_cell = c_last;
    b.gates = nullptr;
    b.c = nullptr;
    std::fill(h.begin(), h.end(), 0.0F);
    run_forward(s, b, workspace.data(), {});
    EXPECT_EQ(h, all);
    EXPECT_EQ(h_last, last);
    EXPECT_EQ(c_last, last_cell);
    EXPECT_EQ(std::memcmp(h_last.data(), h.data() + 4 * h0.size(), h0.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace neap
