#include "device/cpu/bf16.h"

#include "device/cpu/isa.h"

namespace neap {

bool has_bf16_products() {
  static const bool has = isa() == Isa::kV4 && __builtin_cpu_supports("avx512bf16");
  return has;
}

}  // namespace neap
