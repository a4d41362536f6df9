// By our own gemm: the gradient of the input is the same to the bit as if it were one product over all classes.
#include <omp.h>

#include <algorithm>

#include "device/cpu/gemm.h"
#include "ops/linear/linear_simd.h"
#include "ops/vocab_loss/vocab_loss.h"

namespace neap::ops {
namespace {

float* floats(std::byte* at) { return reinterpret_cast<float*>(at); }

std::optional<TileProducts> products(const TileShape& t) {
  const GemmShape logits = {.m = t.rows, .n = t.columns, .k = t.in};
  const GemmShape input = {.m = t.rows, .n = t.in, .k = t.columns};
  const GemmShape weight = {.m = t.columns, .n = t.in, .k = t.rows};
  TileProducts out;
  out.logits = [t, logits](const float* x, const float* w, const float* bias, float* y, std::byte* scratch) {
    if (bias != nullptr) linear_table().fill_rows(bias, y, t.rows, t.columns);
    gemm_parallel(logits, {x, t.in, false}, {w, t.in, true}, {y, t.columns, bias != nullptr}, floats(scratch));
  };
  out.input = [t, input](const float* g, const float* w, float* d, bool add, std::byte* scratch) {
    gemm_parallel(input, {g, t.columns, false}, {w, t.in, false}, {d, t.in, add}, floats(scratch));
  };
  out.weight = [t, weight](const float* g, const float* x, float* d, bool add, std::byte* scratch) {
    gemm_parallel(weight, {g, t.columns, true}, {x, t.in, false}, {d, t.in, add}, floats(scratch));
  };
  for (const GemmShape& shape : {logits, input, weight}) {
    out.scratch = std::max(out.scratch, static_cast<std::int64_t>(gemm_scratch_bytes(shape, omp_get_max_threads())));
  }
  return out;
}

}  // namespace

Prepared vocab_own(const OpCall& call, MakePrepared prepare) { return prepare(call, products); }

}  // namespace neap::ops
