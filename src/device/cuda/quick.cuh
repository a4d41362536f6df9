// The hardware's own functions, whose errors are far below those of bf16.
#pragma once

namespace neap {

// 2^x; denormal results are 0.
__device__ inline float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace neap
