// Cases that every recurrent chunk goes through.
#pragma once

#include "ops/op_check.h"
#include "ops/rnn/chunk_op.h"

namespace neap {

struct ChunkCase {
  std::string op;
  std::int64_t blocks = 4;
  std::int64_t steps = 3, batch = 2, input = 4, hidden = 5;
  bool has_bias = true, has_state = true, has_cell = false, has_lengths = false, reverse = false;
  std::int64_t start = 0;
  std::vector<std::size_t> flows = {0, 1};
  std::string activation = {};
};

inline HostTensor lengths_of(std::int64_t batch, std::int64_t start, std::int64_t steps) {
  HostTensor lengths({DType::kI32, {batch}});
  for (std::int64_t b = 0; b < batch; ++b) {  // none at all, some, all
    lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(start + b * 2 % (steps + 1));
  }
  return lengths;
}

inline OpCase op_case(const ChunkCase& c) {
  using In = ops::ChunkIn;
  const auto f32 = [](Shape shape) { return TensorType{DType::kF32, std::move(shape)}; };
  OpCase out{.op = c.op, .attrs = {{"start", c.start}, {"reverse", std::int64_t{c.reverse}}}};
  const std::int64_t rows = c.blocks * c.hidden;
  out.inputs = {
      f32({c.steps, c.batch, c.input}), f32({rows, c.input}),    f32({rows, c.hidden}), f32({rows}), f32({rows}),
      {DType::kI32, {c.batch}},         f32({c.batch, c.hidden})};
  if (c.has_cell) out.inputs.push_back(f32({c.batch, c.hidden}));
  if (!c.has_bias) out.absent = {In::kBIh, In::kBHh};
  if (!c.has_lengths) out.absent.push_back(In::kLengths);
  if (c.has_lengths) out.given[In::kLengths] = lengths_of(c.batch, c.start, c.steps);
  if (!c.has_state) out.absent.push_back(In::kH0);
  if (!c.has_state && c.has_cell) out.absent.push_back(In::kC0);
  if (!c.activation.empty()) out.attrs.set("activation", c.activation);
  out.flows = c.flows;
  return out;
}

// Kernels against the reference and gradients against differences: with and without biases, state, lengths, in both
// directions, one step, sizes that are no multiple of a vector.
inline void check_chunk(const ChunkCase& base) {
  check_op(op_case(base));
  for (const bool reverse : {false, true}) {
    for (const bool has_lengths : {false, true}) {
      for (const bool has_state : {false, true}) {
        ChunkCase c = base;
        c.reverse = reverse;
        c.has_lengths = has_lengths;
        c.has_state = has_state;
        c.batch = 4;
        c.start = 7;
        check_op(op_case(c));
      }
    }
  }
  ChunkCase plain = base;
  plain.has_bias = false;
  plain.steps = 1;
  check_op(op_case(plain));
  plain.flows = {1};
  check_op(op_case(plain));
  ChunkCase large = base;
  large.steps = 3;
  large.batch = 9;
  large.input = 50;
  large.hidden = 75;
  OpCase wide = op_case(large);
  wide.low = -0.3;
  wide.high = 0.3;
  check_kernels(wide);
  large.has_lengths = true;
  wide = op_case(large);
  wide.low = -0.3;
  wide.high = 0.3;
  check_op(wide);
}

// The same with gates that backward makes again.
inline void check_chunk_regated(const ChunkCase& base) {
  for (const bool reverse : {false, true}) {
    for (const bool has_state : {false, true}) {
      for (const std::int64_t steps : {1, 4}) {
        ChunkCase c = base;
        c.reverse = reverse;
        c.has_lengths = steps == 4 && has_state;
        c.has_state = has_state;
        c.has_bias = !reverse;
        c.steps = steps;
        OpCase op = op_case(c);
        op.attrs.set("gates", std::string("recompute"));
        check_op(op);
      }
    }
  }
}

// The gradient's own kernels, with sums to go on from.
inline void check_chunk_grad(const ChunkCase& c) {
  const OpCase forward = op_case(c);
  Builder g;
  std::map<std::string, HostTensor> leaves;
  Values in;
  const auto leaf = [&](const TensorType& type) {
    const std::string name = "leaf" + std::to_string(leaves.size());
    leaves[name] = random_tensor(type, 50 + leaves.size());
    return g.input(name, type.dtype, type.shape);
  };
  for (std::size_t i = 0; i < forward.inputs.size(); ++i) {
    const bool is_absent = std::count(forward.absent.begin(), forward.absent.end(), i) > 0;
    in.push_back(is_absent ? Value{} : leaf(forward.inputs[i]));
  }
  const Values y = g.add(c.op, in, forward.attrs, "y");
  const Node node = g.graph().nodes.at(0);
  Values dy(y.size());
  for (const std::size_t o : c.flows) dy[o] = leaf(g.type(y[o]));
  const std::vector<bool> wanted(in.size(), true);
  GradientCall call{.g = g, .node = node, .dy = dy, .wanted = wanted};
  call.sums.resize(in.size());
  using In = ops::ChunkIn;
  for (const std::size_t i : {In::kWIh, In::kWHh, In::kBIh, In::kBHh}) call.sums[i] = leaf(forward.inputs[i]);
  const Values dx = node.op->gradient(call);
  EXPECT_EQ(std::count(call.taken.begin(), call.taken.end(), true), 4);
  const auto fast = evaluate(g.graph(), leaves);
  const auto slow = evaluate(g.graph(), leaves, "ref");
  for (const Value d : dx) {
    if (!d) continue;
    const HostTensor& a = fast[d.index];
    const HostTensor& b = slow[d.index];
    for (std::int64_t e = 0; e < a.type.elements(); ++e) {
      ASSERT_NEAR(a.floats()[e], b.floats()[e], 1e-4 * (1 + std::abs(b.floats()[e]))) << g.graph().at(d).name;
    }
  }
}

}  // namespace neap
