#include "ops/convert_kernel.h"

#include <algorithm>
#include <array>

#include "core/bytes.h"
#include "device/geared_kernel.h"
#include "neap/error.h"
#include "ops/cast/cast_simd.h"

namespace neap {
namespace {

constexpr std::int64_t kPlace = 256;  // what libraries want of addresses on a GPU
constexpr std::size_t kMost = 32;     // inputs or outputs of a call

class Conversion {
 public:
  Conversion(const OpCall& call, const OpCall& inner, DeviceKind device) : is_cuda_(device == DeviceKind::kCuda) {
    require(call.inputs.size() <= kMost && call.outputs.size() <= kMost, "a call has few tensors");
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto& t = call.inputs[i];
      inputs_.push_back(t && !(*t == *inner.inputs[i]) ? t->elements() : -1);
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      outputs_.push_back(call.outputs[i] == inner.outputs[i] ? -1 : call.outputs[i].elements());
    }
  }

  // Beside that of the kernel inside.
  std::int64_t workspace_bytes() const {
    std::int64_t bytes = kPlace;
    for (const std::int64_t n : inputs_) bytes += place_of(n);
    for (const std::int64_t n : outputs_) bytes += place_of(n);
    return bytes;
  }

  // `inner` gets buffers that are f32.
  template <class Inner>
  void run(const Buffers& b, Stream& stream, const Inner& inner) const {
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
    inner({.inputs = {in.data(), b.inputs.size()}, .outputs = {out.data(), b.outputs.size()}, .workspace = at});
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
    widen_cpu(from, to, n);
  }
  void narrow(const float* from, std::byte* to, std::int64_t n, Stream& stream) const {
    if (is_cuda_) return narrow_cuda(from, to, n, stream);
    narrow_cpu(from, to, n);
  }

  bool is_cuda_;
  std::vector<std::int64_t> inputs_, outputs_;  // elements; -1: handed on as it is
};

class ConvertingKernel final : public Kernel {
 public:
  ConvertingKernel(Conversion conversion, std::shared_ptr<Kernel> inner)
      : conversion_(std::move(conversion)), inner_(std::move(inner)) {}
  std::int64_t workspace_bytes() const override { return conversion_.workspace_bytes() + inner_->workspace_bytes(); }
  std::string numerics() const override { return inner_->numerics(); }
  void launch(const Buffers& buffers, Stream& stream) override {
    conversion_.run(buffers, stream, [&](const Buffers& b) { inner_->launch(b, stream); });
  }

 private:
  Conversion conversion_;
  std::shared_ptr<Kernel> inner_;
};

// The same around a kernel with gears, which are its own.
class GearedConvertingKernel final : public GearedKernel {
 public:
  GearedConvertingKernel(Conversion conversion, std::shared_ptr<GearedKernel> inner)
      : conversion_(std::move(conversion)), inner_(std::move(inner)) {}
  std::int64_t workspace_bytes() const override { return conversion_.workspace_bytes() + inner_->workspace_bytes(); }
  std::string numerics() const override { return inner_->numerics(); }
  void launch_in(std::uint32_t gear, const Buffers& buffers, Stream& stream) override {
    conversion_.run(buffers, stream, [&](const Buffers& b) { inner_->launch_in(gear, b, stream); });
  }

 private:
  Conversion conversion_;
  std::shared_ptr<GearedKernel> inner_;
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

void widen_cpu(const std::byte* from, float* to, std::int64_t n) { cast_table().bf16_to_f32(from, to, n); }
void narrow_cpu(const float* from, std::byte* to, std::int64_t n) { cast_table().f32_to_bf16(from, to, n); }

std::shared_ptr<Kernel> converting_kernel(const OpCall& call, const PrepareWide& prepare, DeviceKind device) {
  if (device == DeviceKind::kCpu) {
    if (auto chunked = chunked_kernel(call, prepare)) return chunked;
  }
  const OpCall wide = widened(call);
  return converting_between(call, wide, prepare(wide), device);
}

std::unique_ptr<Kernel> converting_between(const OpCall& call, const OpCall& inner_call, std::shared_ptr<Kernel> inner,
                                           DeviceKind device) {
  Conversion conversion(call, inner_call, device);
  if (auto geared = std::dynamic_pointer_cast<GearedKernel>(inner)) {
    return std::make_unique<GearedConvertingKernel>(std::move(conversion), std::move(geared));
  }
  return std::make_unique<ConvertingKernel>(std::move(conversion), std::move(inner));
}

}  // namespace neap
