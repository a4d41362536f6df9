#pragma once

#include "ops/conv/conv.h"

namespace neap::ops {

// `s` is the convolution that leads from the result back to x.
[[gnu::weak]] Prepared conv_transpose_cuda(const ConvShape& s);

}  // namespace neap::ops
