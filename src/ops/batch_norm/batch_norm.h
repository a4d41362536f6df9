#pragma once

#include "ops/batch_norm/columns.h"
#include "ops/kernel.h"

namespace neap::ops {

// Inputs of batch_norm_grad.
enum BatchNormGradInput : std::uint8_t { kDy, kX, kMean, kRstd, kScale, kMask, kBias };

// Inputs of merge_moments_grad.
enum MergeGradInput : std::uint8_t { kDMean, kDRstd, kWholeMean, kWholeRstd, kFirstMean };

// [..., C] as one image of rows.
Columns rows_of(const Shape& x);
// UserError unless input i, when given, is f32[C].
void expect_channels(const OpCall& call, std::initializer_list<std::size_t> inputs, const Dim& channels);

[[gnu::weak]] Prepared batch_stats_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_apply_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_grad_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_stats_cuda(const OpCall& call);
[[gnu::weak]] Prepared frozen_stats_cuda(const OpCall& call);
[[gnu::weak]] Prepared running_stats_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_apply_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_frozen_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared moments_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared moments_cuda(const OpCall& call);
[[gnu::weak]] Prepared moments_grad_bf16_cuda(const OpCall& call);
[[gnu::weak]] Prepared moments_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared merge_moments_cuda(const OpCall& call);
[[gnu::weak]] Prepared merge_moments_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared batch_norm_stats_grad_cuda(const OpCall& call);
Prepared batch_stats_ref(const OpCall& call);
Prepared batch_norm_apply_ref(const OpCall& call);
Prepared batch_norm_grad_ref(const OpCall& call);
Prepared batch_norm_frozen_grad_ref(const OpCall& call);

}  // namespace neap::ops
