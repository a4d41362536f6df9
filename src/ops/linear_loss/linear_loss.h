#pragma once

#include "ops/cross_entropy/classes.h"
#include "ops/kernel.h"

namespace neap::ops {

enum class LinearLossIn : std::uint8_t { kX, kWeight, kBias, kTargets };
enum class LinearLossOut : std::uint8_t { kLoss, kDx, kDWeight, kDBias };
constexpr std::size_t at(LinearLossIn i) { return static_cast<std::size_t>(i); }
constexpr std::size_t at(LinearLossOut i) { return static_cast<std::size_t>(i); }

struct LinearLossShape {
  ClassRows classes;
  std::int64_t in = 0;
  bool bias = false;
  bool mean = true;
  std::int64_t tile = 0;  // rows whose logits exist at one time
  bool tf32 = false;      // of f32 on a GPU (ops/product_math.h)
};
// Of a call with static shapes; `element` bytes a logit.
LinearLossShape linear_loss_shape(const OpCall& call, std::int64_t element);

[[gnu::weak]] Prepared linear_loss_cuda(const OpCall& call);
Prepared linear_loss_own(const OpCall& call);
Prepared linear_loss_ref(const OpCall& call);

}  // namespace neap::ops
