#pragma once

#include "ops/conv/window.h"
#include "ops/kernel.h"

namespace neap::ops {

// A convolution with sizes known: x [n, d, h, w, c], weight [o, kd, kh, kw, c / groups], y [n, od, oh, ow, o]; depths
// are 1 unless it is one over volumes.
struct ConvShape {
  std::int64_t n = 0;
  bool is_volume = false;
  std::int64_t d = 1, h = 0, w = 0, c = 0;
  std::int64_t od = 1, oh = 0, ow = 0, o = 0;
  std::int64_t groups = 1;
  Window window;
  DType type = DType::kF32;  // or bf16: then dw and db are f32 all the same
  DType bias_type = DType::kF32;
  bool tf32 = false;  // of f32 on a GPU (ops/product_math.h)

  double flops() const;
};

ConvShape conv_shape(const Shape& x, const Shape& weight, const Shape& y, const Attrs& attrs);

// Sizes of the weight's spatial axes.
Ints kernel_of(const Shape& weight);
// The attribute; UserError when it does not divide the channels.
std::int64_t groups_of(const Attrs& attrs, const Dim& in_channels, const Dim& out_channels);
// UserError unless every given input is f32.
void expect_f32(const OpCall& call);

// y = x * w + bias; dw, db from x and dy; dx (+ bias) from dy and w. `bias` and `db` may be null.
void conv_forward_ref(const ConvShape& s, const float* x, const float* w, const float* bias, float* y);
void conv_weight_ref(const ConvShape& s, const float* x, const float* dy, float* dw, float* db);
void conv_data_ref(const ConvShape& s, const float* dy, const float* w, const float* bias, float* dx);

// Inputs x, weight, bias; output y.
[[gnu::weak]] Prepared conv_forward_onednn(const ConvShape& s, bool with_bias);
// Inputs x, dy; outputs dw, db.
[[gnu::weak]] Prepared conv_weight_onednn(const ConvShape& s, bool with_bias);
// Inputs dy, weight and, when given, a bias that is added to the result; output dx.
[[gnu::weak]] Prepared conv_data_onednn(const ConvShape& s);

// The same on CUDA: as a product where it is one, by cuDNN, and plainly where that declines.
[[gnu::weak]] Prepared conv_forward_product(const ConvShape& s, bool with_bias);
[[gnu::weak]] Prepared conv_weight_product(const ConvShape& s);
[[gnu::weak]] Prepared conv_data_product(const ConvShape& s);
[[gnu::weak]] Prepared conv_forward_cudnn(const ConvShape& s, bool with_bias);
[[gnu::weak]] Prepared conv_weight_cudnn(const ConvShape& s);
[[gnu::weak]] Prepared conv_data_cudnn(const ConvShape& s);
[[gnu::weak]] Prepared conv_forward_cuda(const ConvShape& s);
[[gnu::weak]] Prepared conv_weight_cuda(const ConvShape& s);
[[gnu::weak]] Prepared conv_data_cuda(const ConvShape& s);

// dw from x and dy, added to a third input where there is one; dw may lie in its place.
[[gnu::weak]] Prepared conv_add_weight_product(const ConvShape& s, bool with_sum);
[[gnu::weak]] Prepared conv_add_weight_cudnn(const ConvShape& s, bool with_sum);
[[gnu::weak]] Prepared conv_add_weight_cuda(const ConvShape& s);

}  // namespace neap::ops
