#pragma once

#include "ops/cross_entropy/classes.h"

namespace neap::ops {

[[gnu::weak]] Prepared cross_entropy_cuda(const OpCall& call);
[[gnu::weak]] Prepared cross_entropy_grad_cuda(const OpCall& call);
[[gnu::weak]] Prepared correct_count_cuda(const OpCall& call);
[[gnu::weak]] Prepared nll_loss_cuda(const OpCall& call);
[[gnu::weak]] Prepared nll_loss_grad_cuda(const OpCall& call);
Prepared cross_entropy_ref(const OpCall& call);
Prepared cross_entropy_grad_ref(const OpCall& call);
Prepared correct_count_ref(const OpCall& call);

}  // namespace neap::ops
