// Layers with parameters, written with Builder. Names and initial values follow PyTorch's.
#pragma once

#include <string>

#include "neap/builder.h"

namespace neap {

struct LinearOptions {
  bool bias = true;
  double init_std = 0;  // 0: uniform in ±1/sqrt(in), like PyTorch
};
// y = x W^T + b over the last axis; parameters NAME.weight [out,in], NAME.bias [out].
Value linear(Builder& g, std::string_view name, Value x, std::int64_t out, LinearOptions options = {});

struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = false;
};
// Square kernel over [N,H,W,C]; parameter NAME.weight [out,k,k,in/groups], in files [out,in/groups,k,k].
Value conv2d(Builder& g, std::string_view name, Value x, std::int64_t out, std::int64_t kernel,
             ConvOptions options = {});

struct BatchNormOptions {
  double momentum = 0.1;
  double epsilon = 1e-5;
  bool relu = false;
  Value residual = {};  // added before the ReLU
};
// Over the last axis. Training statistics unless the builder's mode is evaluation (see Mode).
Value batch_norm(Builder& g, std::string_view name, Value x, BatchNormOptions options = {});

Value layer_norm(Builder& g, std::string_view name, Value x, double epsilon = 1e-5);

// Rows of NAME.weight [count, width].
Value embedding(Builder& g, std::string_view name, Value ids, std::int64_t count, std::int64_t width,
                double init_std = 1);

// Nothing in evaluation or when p is 0.
Value dropout(Builder& g, Value x, double p);

Value max_pool(Builder& g, Value x, std::int64_t kernel, std::int64_t stride, std::int64_t pad = 0);

// Mean over rows; also names the result "loss".
Value cross_entropy_loss(Builder& g, Value logits, Value targets);

}  // namespace neap
