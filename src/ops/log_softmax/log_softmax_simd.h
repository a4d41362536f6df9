#pragma once

#include "ops/softmax/softmax_simd.h"

namespace neap {

NEAP_ISA_TABLE(SoftmaxTable, log_softmax_table)

}  // namespace neap
