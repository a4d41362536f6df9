#include "device/cuda/launch.cuh"
#include "ops/binary/logical.h"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/elementwise/broadcast.h"

namespace neap::ops {
namespace {

enum class Test : std::uint8_t { kNot, kNan, kInf };

void run_logical(const Buffers& b, cudaStream_t stream, char which, const BroadcastPlan& plan) {
  const auto* p = b.in<std::uint8_t>(0);
  const auto* q = b.in<std::uint8_t>(1);
  auto* out = b.out<std::uint8_t>(0);
  each("logical", plan.count, stream, [=] __device__(std::int64_t i) {
    const BroadcastPlaces<2> at = broadcast_places<2>(plan, i);
    const bool x = p[at.at[0]] != 0;
    const bool y = q[at.at[1]] != 0;
    out[i] = (which == 'a' ? x && y : which == 'o' ? x || y : x != y) ? 1 : 0;
  });
}

}  // namespace

Prepared logical_cuda(const OpCall& call) {
  const char which = call.op->name[0];  // and, or, xor
  return cuda_kernel([which, plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](
                         const Buffers& b, cudaStream_t stream) { run_logical(b, stream, which, plan); });
}

namespace {

void run_predicate(const Buffers& b, cudaStream_t stream, Test test, bool positive, bool negative, std::int64_t n) {
  const auto* bits = b.in<std::uint8_t>(0);
  const auto* x = b.in<float>(0);
  auto* out = b.out<std::uint8_t>(0);
  each("predicate", n, stream, [=] __device__(std::int64_t i) {
    const bool holds = test == Test::kNot   ? bits[i] == 0
                       : test == Test::kNan ? isnan(x[i])
                                            : isinf(x[i]) && (x[i] < 0 ? negative : positive);
    out[i] = holds ? 1 : 0;
  });
}

}  // namespace

Prepared predicate_cuda(const OpCall& call) {
  const Test test = call.op->name == "not" ? Test::kNot : call.op->name == "is_nan" ? Test::kNan : Test::kInf;
  if (test != Test::kNot && call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  const bool positive = call.attrs.integer("detect_positive", 1) != 0;
  const bool negative = call.attrs.integer("detect_negative", 1) != 0;
  return cuda_kernel([test, positive, negative, n = call.in(0).elements()](const Buffers& b, cudaStream_t stream) {
    run_predicate(b, stream, test, positive, negative, n);
  });
}

}  // namespace neap::ops
