// Batch norm's statistics where a batch is cut into parts of equal size (src/split):
//   moments(x [..., C]) -> mean [C], m2 [C]        m2 is the sum of squared deviations from the mean
//   moments_grad(x, mean, dmean?, dm2?, sum?) -> dx = sum + dmean / rows + 2 dm2 (x - mean)
//   merge_moments(mean, m2 of part 0, of part 1, ...; rows, epsilon) -> mean, rstd, var     rows: of a part
//     joined in the order of the parts (Chan, Golub, LeVeque); var is biased, rstd = 1 / sqrt(var + epsilon)
//   merge_moments_grad(dmean?, drstd?, mean, rstd, mean of part 0, of part 1, ...; rows) -> dmean, dm2 of part 0, ...
//   batch_norm_stats_grad(scale, rstd, dscale, dbias) -> dmean, drstd: the way back through mean and rstd of
//     y = scale rstd (x - mean) + bias, from the sums that are dscale and dbias
#include <fmt/format.h>

#include <cmath>

#include "core/bytes.h"
#include "neap/error.h"
#include "ops/batch_norm/batch_norm.h"

namespace neap::ops {
namespace {

TensorType channels_of(const TensorType& x) {
  if (x.dtype != DType::kF32 || x.shape.rank() < 2) throw UserError("takes f32[..., C]");
  return {DType::kF32, {x.shape[-1]}};
}

Types infer(const OpCall& call) {
  const TensorType channels = channels_of(call.in(0));
  return {channels, channels};
}

Types infer_grad(const OpCall& call) {
  channels_of(call.in(0));
  call.in(1);
  expect_channels(call, {1, 2, 3}, call.shape(0)[-1]);
  if (call.has(4) && !(call.in(4) == call.in(0))) throw UserError("the sum must have x's type");
  return {call.in(0)};
}

std::int64_t part_rows(const OpCall& call) {
  const std::int64_t rows = call.attrs.integer("rows");
  if (rows < 1) throw UserError(fmt::format("a part has rows, not {}", rows));
  return rows;
}

Types infer_merge(const OpCall& call) {
  if (call.inputs.empty() || call.inputs.size() % 2 != 0) throw UserError("takes mean and m2 of each part");
  if (call.shape(0).rank() != 1) throw UserError("takes f32[C]");
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    call.in(i);
    expect_channels(call, {i}, call.shape(0)[0]);
  }
  part_rows(call);
  return {call.in(0), call.in(0), call.in(0)};
}

Types infer_merge_grad(const OpCall& call) {
  if (call.inputs.size() <= kFirstMean) throw UserError("takes the mean of each part");
  for (std::size_t i = kWholeMean; i < call.inputs.size(); ++i) call.in(i);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) expect_channels(call, {i}, call.shape(kWholeMean)[0]);
  part_rows(call);
  return Types(2 * (call.inputs.size() - kFirstMean), call.in(kWholeMean));
}

Types infer_stats_grad(const OpCall& call) {
  if (call.shape(0).rank() != 1) throw UserError("takes f32[C]");
  for (const std::size_t i : {1, 2, 3}) call.in(i);
  expect_channels(call, {0, 1, 2, 3}, call.shape(0)[0]);
  return {call.in(0), call.in(0)};
}

Values gradient(GradientCall& c) { return {c.g("moments_grad", {c.x(0), c.y(0), c.dy[0], c.dy[1], c.take_sum(0)})}; }

Values merge_gradient(GradientCall& c) {
  if (c.dy[2]) throw UserError("the variance is for running statistics only; nothing flows back through it");
  Values in = {c.dy[0], c.dy[1], c.y(0), c.y(1)};
  for (std::size_t i = 0; i < c.node.inputs.size(); i += 2) in.push_back(c.x(i));
  return c.g.add("merge_moments_grad", in, {{"rows", c.node.attrs.integer("rows")}});
}

Prepared simd(const OpCall& call) {
  const Columns s = rows_of(call.shape(0));
  if (s.rows == 0) return Declined{"no rows"};
  return function_kernel(
      [s](const Buffers& b) {
        auto* partial = reinterpret_cast<double*>(b.workspace);
        columns_table().moments(s, b.in<float>(0), partial);
        columns_table().merge_moments(s, partial);
        for (std::int64_t c = 0; c < s.c; ++c) {
          b.out<float>(0)[c] = static_cast<float>(partial[c]);
          b.out<float>(1)[c] = static_cast<float>(partial[s.c + c]);
        }
      },
      partial_bytes(s));
}

Prepared ref(const OpCall& call) {
  return function_kernel([s = rows_of(call.shape(0))](const Buffers& b) {
    const float* x = b.in<float>(0);
    for (std::int64_t c = 0; c < s.c; ++c) {
      double sum = 0;
      double squares = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) sum += x[r * s.c + c];
      const double mean = s.rows > 0 ? sum / static_cast<double>(s.rows) : 0;
      for (std::int64_t r = 0; r < s.rows; ++r) squares += (x[r * s.c + c] - mean) * (x[r * s.c + c] - mean);
      b.out<float>(0)[c] = static_cast<float>(mean);
      b.out<float>(1)[c] = static_cast<float>(squares);
    }
  });
}

// dx = k0 * sum - (k1 + k2 (x - mean)) with k0 = 1; without a sum, x stands in its place and k0 is 0.
Prepared simd_grad(const OpCall& call) {
  const Columns s = rows_of(call.shape(0));
  if (s.rows == 0) return Declined{"no rows"};
  return function_kernel(
      [s](const Buffers& b) {
        auto* k = reinterpret_cast<float*>(b.workspace);
        const bool has_sum = b.in<float>(4) != nullptr;
        for (std::int64_t c = 0; c < s.c; ++c) {
          k[c] = has_sum ? 1 : 0;
          k[s.c + c] = b.in<float>(2) != nullptr ? -b.in<float>(2)[c] / static_cast<float>(s.rows) : 0;
          k[2 * s.c + c] = b.in<float>(3) != nullptr ? -2 * b.in<float>(3)[c] : 0;
        }
        columns_table().gradient(s, {.dy = b.in<void>(has_sum ? 4 : 0),
                                     .x = b.in<void>(0),
                                     .mask = nullptr,
                                     .gate = ColumnGate::kOpen,
                                     .mean = {b.in<float>(1)},
                                     .k0 = {k},
                                     .k1 = {k + s.c},
                                     .k2 = {k + 2 * s.c},
                                     .dx = b.out<void>(0),
                                     .g = nullptr});
      },
      3 * s.c * static_cast<std::int64_t>(sizeof(float)));
}

Prepared ref_grad(const OpCall& call) {
  return function_kernel([s = rows_of(call.shape(0))](const Buffers& b) {
    for (std::int64_t i = 0; i < s.rows * s.c; ++i) {
      const std::int64_t c = i % s.c;
      double dx = b.in<float>(4) != nullptr ? b.in<float>(4)[i] : 0;
      if (b.in<float>(2) != nullptr) dx += static_cast<double>(b.in<float>(2)[c]) / static_cast<double>(s.rows);
      if (b.in<float>(3) != nullptr) {
        dx += 2 * static_cast<double>(b.in<float>(3)[c]) * (static_cast<double>(b.in<float>(0)[i]) - b.in<float>(1)[c]);
      }
      b.out<float>(0)[i] = static_cast<float>(dx);
    }
  });
}

struct Moments {
  double mean = 0;
  double m2 = 0;
};

Moments merged(const Buffers& b, std::size_t parts, std::int64_t rows, std::int64_t c) {
  Moments all{b.in<float>(0)[c], b.in<float>(1)[c]};
  for (std::size_t p = 1; p < parts; ++p) {
    const double before = static_cast<double>(p) * static_cast<double>(rows);
    const double share = static_cast<double>(rows) / (before + static_cast<double>(rows));
    const double delta = b.in<float>(2 * p)[c] - all.mean;
    all.mean += delta * share;
    all.m2 += b.in<float>(2 * p + 1)[c] + delta * delta * share * before;
  }
  return all;
}

Prepared merge(const OpCall& call) {
  const std::size_t parts = call.inputs.size() / 2;
  return function_kernel([parts, rows = part_rows(call), channels = call.shape(0).count(),
                          epsilon = call.attrs.real("epsilon", 1e-5)](const Buffers& b) {
    const double all_rows = static_cast<double>(rows) * static_cast<double>(parts);
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moments all = merged(b, parts, rows, c);
      const double var = all.m2 / all_rows;
      if (b.outputs[0] != nullptr) b.out<float>(0)[c] = static_cast<float>(all.mean);
      if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(1 / std::sqrt(var + epsilon));
      if (b.outputs[2] != nullptr) b.out<float>(2)[c] = static_cast<float>(var);
    }
  });
}

// With M2 = sum m2 + rows sum (mean_p - mean)^2 and var = M2 / (parts rows).
Prepared merge_grad(const OpCall& call) {
  const std::size_t parts = call.inputs.size() - kFirstMean;
  return function_kernel([parts, rows = part_rows(call), channels = call.shape(kWholeMean).count()](const Buffers& b) {
    const auto share = 1 / static_cast<double>(parts);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double rstd = b.in<float>(kWholeRstd)[c];
      const double dmean = b.in<float>(kDMean) != nullptr ? b.in<float>(kDMean)[c] : 0;
      const double dvar = b.in<float>(kDRstd) != nullptr ? -0.5 * rstd * rstd * rstd * b.in<float>(kDRstd)[c] : 0;
      for (std::size_t p = 0; p < parts; ++p) {
        const double off = static_cast<double>(b.in<float>(kFirstMean + p)[c]) - b.in<float>(kWholeMean)[c];
        b.out<float>(2 * p)[c] = static_cast<float>((dmean + 2 * dvar * off) * share);
        b.out<float>(2 * p + 1)[c] = static_cast<float>(dvar * share / static_cast<double>(rows));
      }
    }
  });
}

Prepared stats_grad(const OpCall& call) {
  return function_kernel([channels = call.shape(0).count()](const Buffers& b) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double scale = b.in<float>(0)[c];
      const double rstd = b.in<float>(1)[c];
      if (b.outputs[0] != nullptr) b.out<float>(0)[c] = static_cast<float>(-scale * rstd * b.in<float>(3)[c]);
      if (b.outputs[1] != nullptr) b.out<float>(1)[c] = static_cast<float>(scale * b.in<float>(2)[c] / rstd);
    }
  });
}

double flops(const OpCall& call) { return 4.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kMoments[] = {{"cuda-bf16", DeviceKind::kCuda, moments_bf16_cuda, true},
                                    {"cuda", DeviceKind::kCuda, moments_cuda},
                                    {"simd", DeviceKind::kCpu, simd},
                                    {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kMomentsGrad[] = {{"cuda-bf16", DeviceKind::kCuda, moments_grad_bf16_cuda, true},
                                        {"cuda", DeviceKind::kCuda, moments_grad_cuda},
                                        {"simd", DeviceKind::kCpu, simd_grad},
                                        {"ref", DeviceKind::kCpu, ref_grad}};
constexpr KernelEntry kMerge[] = {{"cuda", DeviceKind::kCuda, merge_moments_cuda}, {"ref", DeviceKind::kCpu, merge}};
constexpr KernelEntry kMergeGrad[] = {{"cuda", DeviceKind::kCuda, merge_moments_grad_cuda},
                                      {"ref", DeviceKind::kCpu, merge_grad}};
constexpr KernelEntry kStatsGrad[] = {{"cuda", DeviceKind::kCuda, batch_norm_stats_grad_cuda},
                                      {"ref", DeviceKind::kCpu, stats_grad}};
constexpr InOut kGradInPlace[] = {{4, 0}, {0, 0}};

}  // namespace

extern constinit const OpDef moments = {.name = "moments",
                                        .infer = infer,
                                        .gradient = gradient,
                                        .kernels = kMoments,
                                        .kernel_count = std::size(kMoments),
                                        .flops = flops};

extern constinit const OpDef moments_grad = {.name = "moments_grad",
                                             .infer = infer_grad,
                                             .kernels = kMomentsGrad,
                                             .kernel_count = std::size(kMomentsGrad),
                                             .flops = flops,
                                             .in_place = kGradInPlace};

extern constinit const OpDef merge_moments = {.name = "merge_moments",
                                              .infer = infer_merge,
                                              .gradient = merge_gradient,
                                              .kernels = kMerge,
                                              .kernel_count = std::size(kMerge),
                                              .optional_outputs = 0b111};

extern constinit const OpDef merge_moments_grad = {.name = "merge_moments_grad",
                                                   .infer = infer_merge_grad,
                                                   .kernels = kMergeGrad,
                                                   .kernel_count = std::size(kMergeGrad)};

extern constinit const OpDef batch_norm_stats_grad = {.name = "batch_norm_stats_grad",
                                                      .infer = infer_stats_grad,
                                                      .kernels = kStatsGrad,
                                                      .kernel_count = std::size(kStatsGrad),
                                                      .optional_outputs = 0b11};

}  // namespace neap::ops
