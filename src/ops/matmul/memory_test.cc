// Kernels under the conditions that a plan makes: outputs in the place of inputs, outputs left out, inputs and outputs
// that end where the memory ends, any alignment of four bytes.
#include <cstring>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
const TensorType kIds = {DType::kI32, {5}};

struct Call {
  OpCall call;
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;

  Call(const char* op, const std::vector<TensorType>& types, const Attrs& attrs) {
    call = {.op = &op_named(op), .attrs = attrs, .inputs = {types.begin(), types.end()}, .outputs = {}};
    call.outputs = call.op->infer(call);
    for (std::size_t i = 0; i < types.size(); ++i) inputs.push_back(random_tensor(types[i], i));
    for (const TensorType& t : call.outputs) outputs.emplace_back(t);
  }
  std::vector<const std::byte*> in() const {
    std::vector<const std::byte*> all;
    for (const HostTensor& t : inputs) all.push_back(t.data.data());
    return all;
  }
  std::vector<std::byte*> out() {
    std::vector<std::byte*> all;
    for (HostTensor& t : outputs) all.push_back(t.data.data());
    return all;
  }
};

class HostStream final : public Stream {};

void launch(const OpCall& call, std::string_view kernel, const std::vector<const std::byte*>& in,
            const std::vector<std::byte*>& out) {
  const auto prepared = prepare_cpu_kernel(call, kernel);
  std::vector<std::byte> workspace(static_cast<std::size_t>(prepared->workspace_bytes()) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  HostStream stream;
  prepared->launch({.inputs = in, .outputs = out, .workspace = workspace.data() + (64 - address % 64)}, stream);
}

struct Sample {
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs = {};
};

std::vector<Sample> samples() {
  const TensorType x = f32({5, 37});
  const TensorType heads = f32({1, 70, 2, 9});
  return {{"softmax", {x}},
          {"softmax", {x}, {{"axis", std::int64_t{0}}}},
          {"softmax_grad", {x, x}},
          {"softmax_grad", {x, x}, {{"axis", std::int64_t{0}}}},
          {"log_softmax", {x}},
          {"log_softmax_grad", {x, x}},
          {"log_softmax_grad", {x, x}, {{"axis", std::int64_t{0}}}},
          {"cross_entropy", {x, kIds}},
          {"cross_entropy_grad", {f32({}), x, kIds, f32({5})}},
          {"mse_grad", {f32({}), x, x}},
          {"l1_loss_grad", {f32({}), x, x}, {{"wrt", std::int64_t{1}}}},
          {"smooth_l1_grad", {f32({}), x, x}},
          {"bce_with_logits_grad", {f32({}), x, x}},
          {"linear_grad_weight", {x, f32({5, 19})}, {{"shape", Shape{19, 37}}}},
          {"attention", {heads, heads, heads}},
          {"attention_grad", {heads, heads, heads, heads, heads, f32({1, 2, 70})}},
          {"scatter_elements", {f32({5}), kIds, f32({5})}},
          {"scatter_nd", {f32({5, 2}), {DType::kI32, {3, 1}}, f32({3, 2})}}};
}

template <class F>
void for_kernels(const Sample& s, F each) {
  const OpDef& op = op_named(s.op);
  for (std::size_t k = 0; k < op.kernel_count; ++k) each(op, op.kernels[k].name);
}

TEST(Memory, OutputInThePlaceOfAnInput) {
  for (const Sample& s : samples()) {
    for_kernels(s, [&](const OpDef& op, std::string_view kernel) {
      for (const InOut pair : op.in_place) {
        Call apart(s.op, s.inputs, s.attrs);
        launch(apart.call, kernel, apart.in(), apart.out());
        Call same(s.op, s.inputs, s.attrs);
        auto out = same.out();
        out[pair.output] = same.inputs[pair.input].data.data();
        launch(same.call, kernel, same.in(), out);
        EXPECT_EQ(same.inputs[pair.input].data, apart.outputs[pair.output].data)
            << s.op << " by " << kernel << ", input " << int{pair.input};
      }
    });
  }
}

TEST(Memory, OutputsLeftOut) {
  for (const Sample& s : samples()) {
    for_kernels(s, [&](const OpDef& op, std::string_view kernel) {
      Call all(s.op, s.inputs, s.attrs);
      launch(all.call, kernel, all.in(), all.out());
      for (std::size_t o = 0; o < all.outputs.size(); ++o) {
        if ((op.optional_outputs >> o & 1U) == 0) continue;
        Call some(s.op, s.inputs, s.attrs);
        auto out = some.out();
        out[o] = nullptr;
        launch(some.call, kernel, some.in(), out);
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (i == o) continue;
          EXPECT_EQ(some.outputs[i].data, all.outputs[i].data) << s.op << " by " << kernel << ", output " << i;
        }
      }
    });
  }
}

// Bits must not depend on where tensors lie.
TEST(Memory, AnyAlignment) {
  for (const Sample& s : samples()) {
    for_kernels(s, [&](const OpDef& /*op*/, std::string_view kernel) {
      Call plain(s.op, s.inputs, s.attrs);
      launch(plain.call, kernel, plain.in(), plain.out());
      std::vector<std::vector<std::byte>> moved;
      moved.reserve(plain.inputs.size() + plain.outputs.size());
      std::vector<const std::byte*> in;
      std::vector<std::byte*> out;
      for (const HostTensor& t : plain.inputs) {
        moved.emplace_back(t.data.size() + 4);
        std::memcpy(moved.back().data() + 4, t.data.data(), t.data.size());
        in.push_back(moved.back().data() + 4);
      }
      for (const HostTensor& t : plain.outputs) {
        moved.emplace_back(t.data.size() + 4);
        out.push_back(moved.back().data() + 4);
      }
      launch(plain.call, kernel, in, out);
      for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(std::memcmp(out[i], plain.outputs[i].data.data(), plain.outputs[i].data.size()), 0)
            << s.op << " by " << kernel << ", output " << i;
      }
    });
  }
}

}  // namespace
}  // namespace neap
