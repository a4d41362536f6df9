// What batch norm normalises with.
//   batch_stats(x [..., C]; epsilon) -> mean [C], rstd [C], var [C]   rstd = 1 / sqrt(var + epsilon), var is biased
//   frozen_stats(running_mean, running_var; epsilon) -> mean, rstd
//   running_stats(running_mean, running_var, mean, var; rate, rows) changes the first two, has no output:
//     running += rate * (new - running), the variance made unbiased when `rows` (the shape over which it was taken,
//     without the channels) is given
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "neap/error.h"
#include "ops/batch_norm/batch_norm.h"

namespace neap::ops {

Columns rows_of(const Shape& x) {
  const std::int64_t c = x.size(-1);
  return columns_of(1, c == 0 ? 0 : x.count() / c, c);
}

void expect_channels(const OpCall& call, std::initializer_list<std::size_t> inputs, const Dim& channels) {
  for (const std::size_t i : inputs) {
    if (call.has(i) && !(call.in(i) == TensorType{DType::kF32, {channels}})) {
      throw UserError(fmt::format("input {} must be f32[{}], it is {}", i, channels.text(), call.in(i).text()));
    }
  }
}

namespace {

double epsilon_of(const OpCall& call) {
  const double epsilon = call.attrs.real("epsilon", 1e-5);
  if (!(epsilon >= 0)) throw UserError(fmt::format("epsilon cannot be {}", epsilon));
  return epsilon;
}

Types infer_batch(const OpCall& call) {
  const TensorType& x = call.in(0);
  if (x.dtype != DType::kF32 || x.shape.rank() < 2) throw UserError("takes f32[..., C]");
  epsilon_of(call);
  const TensorType channels{DType::kF32, {x.shape[-1]}};
  return {channels, channels, channels};
}

Types infer_frozen(const OpCall& call) {
  if (call.shape(0).rank() != 1) throw UserError("takes f32[C]");
  expect_channels(call, {0, 1}, call.shape(0)[0]);
  epsilon_of(call);
  return {call.in(0), call.in(1)};
}

Types infer_running(const OpCall& call) {
  if (call.shape(0).rank() != 1) throw UserError("takes f32[C]");
  for (const std::size_t i : {1, 2, 3}) call.in(i);
  expect_channels(call, {0, 1, 2, 3}, call.shape(0)[0]);
  const double rate = call.attrs.real("rate");
  if (!(rate >= 0 && rate <= 1)) throw UserError(fmt::format("rate must be in [0, 1], it is {}", rate));
  return {};
}

// Variance is mean squared deviation; statistics are f32, sums double.
void write_stats(const Buffers& b, std::int64_t channels, double rows, double epsilon, const double* mean,
                 const double* m2) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const double var = m2[c] / rows;
    if (b.outputs[0] != nullptr) b.out<float>(0)[c] = static_cast<float>(mean[c]);
    if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(1 / std::sqrt(var + epsilon));
    if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(var);
  }
}

Prepared simd(const OpCall& call) {
  const Columns s = rows_of(call.shape(0));
  if (s.rows == 0) return Declined{"no rows"};
  return function_kernel(
      [s, epsilon = epsilon_of(call), narrow = call.in(0).dtype == DType::kBF16](const Buffers& b) {
        auto* partial = reinterpret_cast<double*>(b.workspace);
        if (narrow) {
          columns_table().moments_bf16(s, b.in<std::uint16_t>(0), partial);
        } else {
          columns_table().moments(s, b.in<float>(0), partial);
        }
        columns_table().merge_moments(s, partial);
        write_stats(b, s.c, static_cast<double>(s.rows), epsilon, partial, partial + s.c);
      },
      partial_bytes(s));
}

Prepared frozen(const OpCall& call) {
  return function_kernel([c = call.shape(0).count(), epsilon = epsilon_of(call)](const Buffers& b) {
    if (b.outputs[0] != nullptr) std::memmove(b.outputs[0], b.inputs[0], static_cast<std::size_t>(c) * sizeof(float));
    if (b.outputs[1] == nullptr) return;
    for (std::int64_t i = 0; i < c; ++i) {
      b.out<float>(1)[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(b.in<float>(1)[i]) + epsilon));
    }
  });
}

Prepared running(const OpCall& call) {
  const double rows = call.attrs.has("rows") ? static_cast<double>(call.attrs.shape("rows").count()) : 0;
  const auto unbias = static_cast<float>(rows > 1 ? rows / (rows - 1) : 1);
  const auto rate = static_cast<float>(call.attrs.real("rate"));
  return function_kernel([c = call.shape(0).count(), rate, unbias](const Buffers& b) {
    auto* mean = b.state<float>(0);
    auto* var = b.state<float>(1);
    for (std::int64_t i = 0; i < c; ++i) {
      mean[i] += rate * (b.in<float>(2)[i] - mean[i]);
      var[i] += rate * (b.in<float>(3)[i] * unbias - var[i]);
    }
  });
}

constexpr KernelEntry kBatch[] = {{"cuda-bf16", DeviceKind::kCuda, batch_stats_bf16_cuda, true},
                                  {"cuda", DeviceKind::kCuda, batch_stats_cuda},
                                  {"simd", DeviceKind::kCpu, simd, true},
                                  {"ref", DeviceKind::kCpu, batch_stats_ref}};
constexpr KernelEntry kFrozen[] = {{"cuda", DeviceKind::kCuda, frozen_stats_cuda}, {"ref", DeviceKind::kCpu, frozen}};
constexpr KernelEntry kRunning[] = {{"cuda", DeviceKind::kCuda, running_stats_cuda},
                                    {"ref", DeviceKind::kCpu, running}};
constexpr std::uint8_t kMutates[] = {0, 1};
constexpr InOut kInPlace[] = {{0, 0}, {1, 1}};

double flops(const OpCall& call) { return 4.0 * static_cast<double>(call.in(0).elements()); }

}  // namespace

// No gradient of its own: that of batch_norm_apply includes the way through the statistics.
extern constinit const OpDef batch_stats = {.name = "batch_stats",
                                            .infer = infer_batch,
                                            .kernels = kBatch,
                                            .kernel_count = std::size(kBatch),
                                            .flops = flops,
                                            .optional_outputs = 0b111};

extern constinit const OpDef frozen_stats = {.name = "frozen_stats",
                                             .infer = infer_frozen,
                                             .kernels = kFrozen,
                                             .kernel_count = std::size(kFrozen),
                                             .in_place = kInPlace,
                                             .optional_outputs = 0b11,
                                             .cheap = true};

extern constinit const OpDef running_stats = {.name = "running_stats",
                                              .infer = infer_running,
                                              .kernels = kRunning,
                                              .kernel_count = std::size(kRunning),
                                              .mutates = kMutates};

}  // namespace neap::ops
