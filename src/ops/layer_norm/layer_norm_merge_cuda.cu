// The residual stream's sums go along with the norms beside them.
#include "ops/layer_norm/layer_norm_mixed.cuh"
#include "ops/layer_norm/row_norm.h"
#include "ops/merge_cuda.h"

namespace neap::ops {
namespace {

bool is_f32(const TensorType& t) { return t.dtype == DType::kF32; }
bool is_bf16(const TensorType& t) { return t.dtype == DType::kBF16; }

// f32 + f32 or bf16 of the same shape, as f32.
bool is_stream_sum(const BoundCall& c) {
  if (!is_call_of(c, "add")) return false;
  const OpCall& call = c.call;
  return is_f32(call.in(0)) && is_f32(call.outputs[0]) && (is_f32(call.in(1)) || is_bf16(call.in(1))) &&
         call.shape(0) == call.shape(1) && call.shape(0) == call.outputs[0].shape && are_aligned(c);
}

bool norm_reads_sum(BoundCalls calls, const BoundCall& next) {
  if (!is_call_of(next, "layer_norm") || next.buffers.inputs[0] != calls[0]->buffers.outputs[0]) return false;
  const RowNorm shape = row_norm(next.call.shape(0), next.call.attrs);
  return is_f32(next.call.in(0)) && next.call.shape(0) == calls[0]->call.outputs[0].shape && fits_a_warp(shape) &&
         (is_bf16(next.call.outputs[0]) || is_f32(next.call.outputs[0])) && are_aligned(next);
}

template <class B, class Y>
void run_sum_norm(const RowNorm& s, const Buffers& sum, const Buffers& norm, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((s.rows + kRowsABlock - 1) / kRowsABlock);
  const auto kernel = s.width <= 3 * 256 ? norm_kernel<3, RowsOfSum<B>, Y> : norm_kernel<kMostChunks, RowsOfSum<B>, Y>;
  kernel<<<blocks, dim3(32, kRowsABlock), 0, stream>>>(s, {sum.in<float>(0), sum.in<B>(1), sum.out<float>(0)},
                                                       norm.in<float>(1), norm.in<float>(2), norm.out<Y>(0),
                                                       norm.out<float>(1), norm.out<float>(2));
  check_launch("add+layer_norm");
}

MergedRun make_sum_norm(BoundCalls calls) {
  const BoundCall& sum = *calls[0];
  const BoundCall& norm = *calls[1];
  const bool is_narrow = is_bf16(sum.call.in(1));
  const bool is_narrow_out = is_bf16(norm.call.outputs[0]);
  return [=, s = row_norm(norm.call.shape(0), norm.call.attrs), a = sum.buffers, b = norm.buffers](Stream& on) {
    const cudaStream_t stream = handle_of(on);
    if (is_narrow && is_narrow_out) return run_sum_norm<Bf16, Bf16>(s, a, b, stream);
    if (is_narrow) return run_sum_norm<Bf16, float>(s, a, b, stream);
    is_narrow_out ? run_sum_norm<float, Bf16>(s, a, b, stream) : run_sum_norm<float, float>(s, a, b, stream);
  };
}

// dx is f32 and only one call reads it.
bool is_stream_grad(const BoundCall& c) {
  if (!is_call_of(c, "layer_norm_grad") || c.buffers.outputs[0] == nullptr || (c.read_once & 1U) == 0) return false;
  const OpCall& call = c.call;
  return (is_bf16(call.in(0)) || is_f32(call.in(0))) && is_f32(call.in(1)) && is_f32(call.outputs[0]) &&
         fits_a_warp(row_norm(call.shape(1), call.attrs)) && are_aligned(c);
}

// Which input of the sum is dx.
std::size_t place_of_dx(const BoundCall& grad, const BoundCall& sum) {
  return sum.buffers.inputs[0] == grad.buffers.outputs[0] ? 0 : 1;
}

bool goes_with_grad(BoundCalls calls, const BoundCall& next) {
  const BoundCall& grad = *calls[0];
  if (calls.size() == 1) {
    if (!is_stream_sum(next) || !is_f32(next.call.in(1))) return false;
    const std::size_t dx = place_of_dx(grad, next);
    return next.buffers.inputs[dx] == grad.buffers.outputs[0] &&
           next.buffers.inputs[1 - dx] != next.buffers.inputs[dx] &&
           next.call.in(0).elements() == grad.call.outputs[0].elements();
  }
  return is_call_of(next, "cast") && is_f32(next.call.in(0)) && is_bf16(next.call.outputs[0]) && are_aligned(next) &&
         next.buffers.inputs[0] == calls[1]->buffers.outputs[0] &&
         next.call.in(0).elements() == grad.call.outputs[0].elements();
}

template <class D>
void run_grad_sum(const RowNorm& s, const Buffers& grad, const Buffers& sum, std::size_t dx, Bf16* narrow,
                  cudaStream_t stream) {
  const bool has_parameters = grad.outputs[1] != nullptr || grad.outputs[2] != nullptr;
  run_norm_grad(
      NormGrad<D, float, true>{.s = s,
                               .dy = grad.in<D>(0),
                               .x = grad.in<float>(1),
                               .mean = grad.in<float>(2),
                               .rstd = grad.in<float>(3),
                               .scale = grad.in<float>(4),
                               .dx = nullptr,
                               .other = sum.in<float>(1 - dx),
                               .sum = sum.out<float>(0),
                               .narrow_sum = narrow,
                               .partial = has_parameters ? reinterpret_cast<float*>(grad.workspace) : nullptr},
      grad.out<float>(1), grad.out<float>(2), stream);
}

MergedRun make_grad_sum(BoundCalls calls) {
  const BoundCall& grad = *calls[0];
  return [s = row_norm(grad.call.shape(1), grad.call.attrs), is_narrow = is_bf16(grad.call.in(0)), g = grad.buffers,
          sum = calls[1]->buffers, dx = place_of_dx(grad, *calls[1]),
          narrow = calls.size() > 2 ? calls[2]->buffers.out<Bf16>(0) : nullptr](Stream& on) {
    is_narrow ? run_grad_sum<Bf16>(s, g, sum, dx, narrow, handle_of(on))
              : run_grad_sum<float>(s, g, sum, dx, narrow, handle_of(on));
  };
}

}  // namespace

constinit const MergeRule kSumThenNorm = {
    .starts = is_stream_sum, .takes = norm_reads_sum, .make = make_sum_norm, .most = 2, .reach = 1, .by_element = true};
// The updates of the norm's parameters stand between.
constinit const MergeRule kNormGradThenSum = {.starts = is_stream_grad,
                                              .takes = goes_with_grad,
                                              .make = make_grad_sum,
                                              .most = 3,
                                              .reach = 4,
                                              .by_element = true,
                                              .elides_first = true};

}  // namespace neap::ops
