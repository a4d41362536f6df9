// Gradients of the reductions. Where an element's depends on the others of its result, a block has a result.
#include "device/cuda/launch.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/broadcast.cuh"
#include "ops/elementwise/broadcast.h"
#include "ops/reduce/reduce.h"

namespace neap::ops {
namespace {

__device__ std::int64_t place(const ReducePlan::Axes& axes, std::int64_t i) {
  std::int64_t at = 0;
  for (int a = axes.rank - 1; a >= 0; --a) {
    at += i % axes.dims[a] * axes.strides[a];
    i /= axes.dims[a];
  }
  return at;
}

// d y / d x of one element, where the others do not matter.
__device__ float slope(ReduceFn fn, float x, float y) {
  switch (fn) {
    case ReduceFn::kL1: return x > 0 ? 1 : x < 0 ? -1 : x;
    case ReduceFn::kL2: return y == 0 ? 0 : x / y;
    case ReduceFn::kLogSumExp: return x == y ? 1 : expf(x - y);
    default: return 2 * x;
  }
}

struct Group {
  ReducePlan plan;
  ReduceFn fn;
  const float *dy, *x, *y;
  float* dx;
};

// Ties of the largest or smallest share its gradient.
__device__ void share(const Group& g, std::int64_t o, const float* x, float* dx, double* scratch) {
  const std::int64_t terms = g.plan.reduced.count;
  const float y = g.y[o];
  double ties = 0;
  for (std::int64_t t = threadIdx.x; t < terms; t += blockDim.x) ties += x[place(g.plan.reduced, t)] == y ? 1 : 0;
  ties = block_reduce(ties, Sum(), scratch);
  for (std::int64_t t = threadIdx.x; t < terms; t += blockDim.x) {
    const std::int64_t at = place(g.plan.reduced, t);
    dx[at] = static_cast<float>(g.dy[o] * (x[at] == y ? 1 / ties : 0));
  }
}

struct Product {
  __device__ double operator()(double a, double b) const { return a * b; }
};

// The product of the others: from that of all that are not 0, and the number of zeros.
__device__ void others(const Group& g, std::int64_t o, const float* x, float* dx, double* scratch) {
  const std::int64_t terms = g.plan.reduced.count;
  double product = 1;
  double zeros = 0;
  for (std::int64_t t = threadIdx.x; t < terms; t += blockDim.x) {
    const double v = x[place(g.plan.reduced, t)];
    zeros += v == 0 ? 1 : 0;
    product *= v == 0 ? 1 : v;
  }
  product = block_reduce(product, Product(), scratch);
  zeros = block_reduce(zeros, Sum(), scratch);
  for (std::int64_t t = threadIdx.x; t < terms; t += blockDim.x) {
    const std::int64_t at = place(g.plan.reduced, t);
    const double v = x[at];
    const double rest = v == 0 ? (zeros > 1 ? 0 : product) : (zeros > 0 ? 0 : product / v);
    dx[at] = static_cast<float>(g.dy[o] * rest);
  }
}

__global__ void groups_kernel(const __grid_constant__ Group g) {
  __shared__ double scratch[kThreads / 32];
  for (std::int64_t o = blockIdx.x; o < g.plan.kept.count; o += gridDim.x) {
    const std::int64_t first = place(g.plan.kept, o);
    if (g.fn == ReduceFn::kProd) {
      others(g, o, g.x + first, g.dx + first, scratch);
    } else {
      share(g, o, g.x + first, g.dx + first, scratch);
    }
  }
}

Prepared by_groups(ReduceFn fn, const ReducePlan& plan) {
  return cuda_kernel([fn, plan](const Buffers& b, cudaStream_t stream) {
    const std::int64_t outputs = plan.outputs();
    if (outputs == 0 || plan.terms() == 0) return;
    const auto blocks = static_cast<unsigned>(outputs < kMostBlocks ? outputs : kMostBlocks);
    groups_kernel<<<blocks, kThreads, 0, stream>>>(
        {plan, fn, b.in<float>(0), b.in<float>(1), b.in<float>(2), b.out<float>(0)});
    check_launch("reduce_grad");
  });
}

void run_by_elements(const Buffers& b, cudaStream_t stream, ReduceFn fn, const BroadcastPlan& plan) {
  const auto* dy = b.in<float>(0);
  const auto* x = b.in<float>(1);
  const auto* y = b.in<float>(2);
  auto* dx = b.out<float>(0);
  each("reduce_grad", plan.count, stream, [=] __device__(std::int64_t i) {
    const std::int64_t at = broadcast_places<1>(plan, i).at[0];
    dx[i] = dy[at] * slope(fn, x[i], y != nullptr ? y[at] : 0);
  });
}

Prepared by_elements(ReduceFn fn, const BroadcastPlan& plan) {
  return cuda_kernel([fn, plan](const Buffers& b, cudaStream_t stream) { run_by_elements(b, stream, fn, plan); });
}

}  // namespace

Prepared reduce_grad_cuda(const OpCall& call) {
  const ReduceFn fn = reduce_fn(call.op->name);
  const Shape& shape = call.shape(1);
  const Reduction reduction(call.attrs, shape.rank());
  if (fn == ReduceFn::kMax || fn == ReduceFn::kMin || fn == ReduceFn::kProd) {
    return by_groups(fn, reduce_plan(shape, reduction.is_reduced));
  }
  return by_elements(fn, broadcast_plan(shape, {reduction.kept(shape)}));
}

namespace {

void run_reduce_sum_grad(const Buffers& b, cudaStream_t stream, const BroadcastPlan& plan, float scale) {
  const auto* dy = b.in<float>(0);
  auto* dx = b.out<float>(0);
  each("reduce_sum_grad", plan.count, stream,
       [=] __device__(std::int64_t i) { dx[i] = scale * dy[broadcast_places<1>(plan, i).at[0]]; });
}

}  // namespace

Prepared reduce_sum_grad_cuda(const OpCall& call) {
  const Shape& shape = call.outputs[0].shape;
  const bool is_broadcast = call.attrs.integer("broadcast", 0) != 0;
  const Shape kept = is_broadcast ? call.shape(0) : Reduction(call.attrs, shape.rank()).kept(shape);
  const bool is_mean = call.attrs.integer("mean", 0) != 0 && call.in(0).elements() > 0;
  const double terms = is_mean ? static_cast<double>(shape.count()) / static_cast<double>(call.in(0).elements()) : 1;
  return cuda_kernel([plan = broadcast_plan(shape, {kept}), scale = static_cast<float>(1 / terms)](
                         const Buffers& b, cudaStream_t stream) { run_reduce_sum_grad(b, stream, plan, scale); });
}

}  // namespace neap::ops
