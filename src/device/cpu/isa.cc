#include "device/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace neap {
namespace {

Isa detect() {
  Isa best = Isa::kBase;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::kV3;
  if (best == Isa::kV3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    best = Isa::kV4;
  }
  const char* wish = std::getenv("NEAP_ISA");
  if (wish == nullptr) return best;
  const std::string_view name = wish;
  const Isa wanted = name == "base" ? Isa::kBase : name == "v3" ? Isa::kV3 : Isa::kV4;
  return std::min(best, wanted);
}

}  // namespace

Isa isa() {
  static const Isa chosen = detect();
  return chosen;
}

const char* isa_name() {
  switch (isa()) {
    case Isa::kBase: return "base";
    case Isa::kV3: return "v3";
    case Isa::kV4: return "v4";
  }
  return "base";
}

}  // namespace neap
