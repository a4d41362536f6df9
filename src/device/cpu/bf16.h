// What this CPU makes of bf16.
#pragma once

namespace neap {

// Does it multiply pairs of bf16 and add them up in f32 (AVX512_BF16)? Without that f32 is faster. NEAP_ISA below v4
// says no.
bool has_bf16_products();

}  // namespace neap
