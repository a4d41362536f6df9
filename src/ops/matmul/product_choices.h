// Which of the choices of cuBLASLt's heuristic a product takes. The library's first is up to 9 % slower than its best.
// A timing at the start would differ from run to run, and with it the bits; so what was measured is written down, for
// the library and the card that it was measured with. Everything else takes the first.
#pragma once

#include "ops/matmul/product_cuda.h"

namespace neap::ops {

inline constexpr int kProductChoices = 20;  // that the heuristic is asked for, where it is not the first alone

int product_choice(const CudaProductShape& shape);

}  // namespace neap::ops
