#pragma once

#include <cstdint>

#include "device/cpu/isa.h"

namespace neap {

struct SgdStep {
  float rate = 0;
  float momentum = 0;
  float decay = 0;  // L2: added to the gradient
  float scale = 1;  // of the gradient, before all else
  bool nesterov = false;
};

struct AdamStep {
  float rate = 0;              // over the first bias correction
  float keep = 1;              // of the parameter: 1 - rate * decay for AdamW
  float decay = 0;             // L2: added to the gradient, Adam only
  float beta1 = 0, rest1 = 0;  // rest = 1 - beta
  float beta2 = 0, rest2 = 0;
  float root2 = 1;  // of the second bias correction
  float eps = 0;
  float scale = 1;
};

struct UpdateTable {
  void (*sgd)(float* param, const float* grad, std::int64_t n, SgdStep step);
  void (*sgd_momentum)(float* param, const float* grad, float* momentum, std::int64_t n, SgdStep step);
  void (*accumulate)(float* sum, const float* grad, std::int64_t n, bool is_first);
  void (*adam)(float* param, const float* grad, float* m, float* v, std::int64_t n, AdamStep step);
};

NEAP_ISA_TABLE(UpdateTable, update_table)

}  // namespace neap
