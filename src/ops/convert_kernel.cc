#include "ops/convert_kernel.h"

#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "device/cpu/vmath_simd.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::int64_t kPlace = 256;  // what libraries want of addresses on a GPU
constexpr std::size_t kMost = 32;     // inputs or outputs of a call

class ConvertingKernel final : public Kernel {
 public:
  ConvertingKernel(const OpCall& call, std::shared_ptr<Kernel> inner, DeviceKind device)
      : inner_(std::move(inner)), is_cuda_(device == DeviceKind::kCuda) {
    require(call.inputs.size() <= kMost && call.outputs.size() <= kMost, "a call has few tensors");
    for (const auto& t : call.inputs) inputs_.push_back(t && t->dtype == DType::kBF16 ? t->elements() : -1);
    for (const TensorType& t : call.outputs) outputs_.push_back(t.dtype == DType::kBF16 ? t.elements() : -1);
  }

  std::int64_t workspace_bytes() const override {
    std::int64_t bytes = kPlace + inner_->workspace_bytes();
    for (const std::int64_t n : inputs_) bytes += place_of(n);
    for (const std::int64_t n : outputs_) bytes += place_of(n);
    return bytes;
  }
  std::string numerics() const override { return inner_->numerics(); }

  void launch(const Buffers& b, Stream& stream) override {
    std::array<const std::byte*, kMost> in{};
    std::array<std::byte*, kMost> out{};
    const auto address = reinterpret_cast<std::uintptr_t>(b.workspace);
    std::byte* at =
        b.workspace + (align_up(static_cast<std::int64_t>(address), kPlace) - static_cast<std::int64_t>(address));
    for (std::size_t i = 0; i < b.inputs.size(); ++i) {
      in[i] = b.inputs[i];
      if (inputs_[i] < 0 || b.inputs[i] == nullptr) continue;
      widen(b.inputs[i], reinterpret_cast<float*>(at), inputs_[i], stream);
      in[i] = at;
      at += place_of(inputs_[i]);
    }
    for (std::size_t i = 0; i < b.outputs.size(); ++i) {
      out[i] = b.outputs[i];
      if (outputs_[i] < 0 || b.outputs[i] == nullptr) continue;
      out[i] = at;
      at += place_of(outputs_[i]);
    }
    inner_->launch({.inputs = {in.data(), b.inputs.size()}, .outputs = {out.data(), b.outputs.size()}, .workspace = at},
                   stream);
    for (std::size_t i = 0; i < b.outputs.size(); ++i) {
      if (outputs_[i] < 0 || b.outputs[i] == nullptr) continue;
      narrow(reinterpret_cast<const float*>(out[i]), b.outputs[i], outputs_[i], stream);
    }
  }

 private:
  static std::int64_t place_of(std::int64_t n) {
    return n < 0 ? 0 : align_up(n * static_cast<std::int64_t>(sizeof(float)), kPlace);
  }
  void widen(const std::byte* from, float* to, std::int64_t n, Stream& stream) const {
    if (is_cuda_) return widen_cuda(from, to, n, stream);
    vmath_table().from_bf16(reinterpret_cast<const std::uint16_t*>(from), to, n);
  }
  void narrow(const float* from, std::byte* to, std::int64_t n, Stream& stream) const {
    if (is_cuda_) return narrow_cuda(from, to, n, stream);
    vmath_table().to_bf16(from, reinterpret_cast<std::uint16_t*>(to), n);
  }

  std::shared_ptr<Kernel> inner_;
  bool is_cuda_;
  std::vector<std::int64_t> inputs_, outputs_;  // elements; -1: handed on as it is
};

}  // namespace

bool has_bf16(const OpCall& call) {
  const auto is_it = [](const TensorType& t) { return t.dtype == DType::kBF16; };
  return std::any_of(call.inputs.begin(), call.inputs.end(), [&](const auto& t) { return t && is_it(*t); }) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), is_it);
}

bool is_native(const OpCall& call) {
  OpCall bare = call;
  bare.outputs.clear();
  try {
    return call.op->infer(bare) == call.outputs;
  } catch (const UserError&) {
    return false;
  }
}

OpCall widened(const OpCall& call) {
  OpCall out = call;
  for (auto& t : out.inputs) {
    if (t && t->dtype == DType::kBF16) t->dtype = DType::kF32;
  }
  for (TensorType& t : out.outputs) {
    if (t.dtype == DType::kBF16) t.dtype = DType::kF32;
  }
  return out;
}

std::shared_ptr<Kernel> converting_kernel(const OpCall& call, std::shared_ptr<Kernel> inner, DeviceKind device) {
  return std::make_shared<ConvertingKernel>(call, std::move(inner), device);
}

}  // namespace neap
