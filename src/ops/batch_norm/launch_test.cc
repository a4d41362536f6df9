// What the planner may do to the kernels of norms, pools and paddings: put an output in an input's place where the op
// allows it, and leave out outputs that are optional. Neither may change a bit of the others.
#include <algorithm>
#include <cstring>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

std::vector<OpCase> cases() {
  const Shape shape{3, 5, 7, 20};
  const TensorType x = f32(shape);
  const TensorType c = f32({20});
  const TensorType row = f32({3, 5, 7});
  const TensorType group = f32({3, 4});
  const TensorType mask{DType::kBits, shape};
  const Attrs relu{{"relu", 1}};
  const Attrs groups{{"groups", 4}};
  const Attrs pool{{"kernel", Ints{2, 2}}};
  return {
      {.op = "batch_stats", .inputs = {x}},
      {.op = "frozen_stats", .inputs = {c, c}, .low = 0.1},
      {.op = "batch_norm_apply", .inputs = {x, c, c, c, c, x}, .attrs = relu},
      {.op = "batch_norm_grad", .inputs = {x, x, c, c, c, mask}, .attrs = relu},
      {.op = "batch_norm_grad", .inputs = {x, x, c, c, c, mask, c}, .attrs = relu, .absent = {5}},
      {.op = "batch_norm_grad", .inputs = {x, x, c, c, c}, .attrs = {{"frozen", 1}}},
      {.op = "batch_norm_frozen_grad", .inputs = {x, c, c, mask}},
      {.op = "layer_norm", .inputs = {x, c, c}},
      {.op = "layer_norm_grad", .inputs = {x, x, row, row, c}},
      {.op = "rms_norm", .inputs = {x, c}},
      {.op = "rms_norm_grad", .inputs = {x, x, row, c}},
      {.op = "group_norm", .inputs = {x, c, c}, .attrs = groups},
      {.op = "group_norm_grad", .inputs = {x, x, group, group, c}, .attrs = groups},
      {.op = "max_pool", .inputs = {x}, .attrs = pool},
      {.op = "global_max_pool", .inputs = {x}},
  };
}

class HostStream final : public Stream {};

// One launch with memory of its own.
struct Launch {
  OpCall call;
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
  std::vector<std::byte*> in;
  std::vector<std::byte*> out;

  explicit Launch(const OpCase& c) {
    call = {.op = &op_named(c.op), .attrs = c.attrs};
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const bool is_absent = std::find(c.absent.begin(), c.absent.end(), i) != c.absent.end();
      call.inputs.push_back(is_absent ? std::nullopt : std::optional(c.inputs[i]));
      inputs.push_back(random_tensor(c.inputs[i], 100 + i, c.low, c.high));
    }
    call.outputs = call.op->infer(call);
    for (const TensorType& t : call.outputs) outputs.emplace_back(t);
    for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(call.has(i) ? inputs[i].data.data() : nullptr);
    for (HostTensor& t : outputs) out.push_back(t.data.data());
  }

  void run(std::string_view kernel_name) {
    const auto kernel = prepare_cpu_kernel(call, kernel_name);
    std::vector<std::byte> workspace(static_cast<std::size_t>(kernel->workspace_bytes()) + 64);
    auto* aligned = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
    const std::vector<const std::byte*> reads(in.begin(), in.end());
    HostStream stream;
    kernel->launch({.inputs = reads, .outputs = out, .workspace = aligned}, stream);
  }
};

// All outputs of `changed` that exist are those of a plain launch.
void expect_same_outputs(const OpCase& c, Launch& changed, const std::string& how) {
  for (const char* kernel : {"simd", "ref"}) {
    Launch plain(c);
    plain.run(kernel);
    Launch copy(c);
    for (std::size_t i = 0; i < copy.out.size(); ++i) {
      if (changed.out[i] == nullptr) copy.out[i] = nullptr;
      for (std::size_t j = 0; j < copy.in.size(); ++j) {
        if (changed.out[i] != nullptr && changed.out[i] == changed.in[j]) copy.out[i] = copy.in[j];
      }
    }
    copy.run(kernel);
    for (std::size_t i = 0; i < copy.out.size(); ++i) {
      if (copy.out[i] == nullptr) continue;
      EXPECT_EQ(std::memcmp(copy.out[i], plain.out[i], plain.outputs[i].data.size()), 0)
          << c.op << " by " << kernel << ", " << how << ": output " << i;
    }
  }
}

TEST(Launch, OutputsMayTakeTheInputsPlaces) {
  for (const OpCase& c : cases()) {
    for (const InOut& place : op_named(c.op).in_place) {
      Launch launch(c);
      if (place.input >= launch.in.size() || launch.in[place.input] == nullptr) continue;
      launch.out[place.output] = launch.in[place.input];
      expect_same_outputs(c, launch, "output " + std::to_string(place.output) + " over " + std::to_string(place.input));
    }
  }
}

TEST(Launch, DxAndDresidualMayTakeBothPlaces) {
  const OpCase c = cases()[3];
  ASSERT_EQ(c.op, "batch_norm_grad");
  Launch launch(c);
  launch.out[0] = launch.in[1];
  launch.out[3] = launch.in[0];
  expect_same_outputs(c, launch, "both");
}

TEST(Launch, OptionalOutputsMayBeLeftOut) {
  for (const OpCase& c : cases()) {
    const std::uint32_t optional = op_named(c.op).optional_outputs;
    for (std::size_t i = 0; i < Launch(c).out.size(); ++i) {
      if ((optional >> i & 1U) == 0) continue;
      Launch one(c);
      one.out[i] = nullptr;
      expect_same_outputs(c, one, "without output " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace neap
