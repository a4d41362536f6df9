// Convolutions over images, in one group, as products with windows: rows of KH KW C numbers, one an output position.
// Some rows at a time, so that they take little memory beside the weights, which are read where they lie.
#pragma once

#include "ops/conv/conv.h"

namespace neap::ops {

// Over images, in one group, all f32: what this file can do.
bool has_windows(const ConvShape& s);

// sum + dw; without a sum, dw. Inputs x, dy, sum?; output dw.
Prepared conv_add_weight_windows(const ConvShape& s, bool with_sum);
// Inputs dy, weight; output dx.
Prepared conv_data_windows(const ConvShape& s);

}  // namespace neap::ops
