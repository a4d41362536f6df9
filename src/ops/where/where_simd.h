#pragma once

#include <cstdint>

#include "device/cpu/isa.h"
#include "ops/elementwise/broadcast_plan.h"

namespace neap {

struct WhereTable {
  // Elements are copied as they are; one function for each size, 1, 2, 4 and 8 bytes. Inputs: condition, a, b.
  using Run = void (*)(const BroadcastPlan& plan, const std::uint8_t* condition, const void* a, const void* b,
                       void* dst);
  Run run[4];
};

NEAP_ISA_TABLE(WhereTable, where_table)

}  // namespace neap
