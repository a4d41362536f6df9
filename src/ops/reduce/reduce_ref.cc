#include <cmath>
#include <limits>

#include "neap/error.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/elementwise/element.h"
#include "ops/reduce/reduce.h"

namespace neap::ops {
namespace {

std::int64_t offset_of(const ReducePlan::Axes& axes, std::int64_t linear) {
  std::int64_t offset = 0;
  for (int a = axes.rank - 1; a >= 0; --a) {
    offset += linear % axes.dims[a] * axes.strides[a];
    linear /= axes.dims[a];
  }
  return offset;
}

double start_of(ReduceFn fn) {
  return fn == ReduceFn::kMax ? -HUGE_VAL : fn == ReduceFn::kMin ? HUGE_VAL : fn == ReduceFn::kProd ? 1 : 0;
}

double fold(ReduceFn fn, double sum, double x, double top) {
  switch (fn) {
    case ReduceFn::kL1: return sum + std::fabs(x);
    case ReduceFn::kL2:
    case ReduceFn::kSumSquare: return sum + x * x;
    case ReduceFn::kProd: return sum * x;
    case ReduceFn::kMax: return std::isnan(sum) || std::isnan(x) ? NAN : std::fmax(sum, x);
    case ReduceFn::kMin: return std::isnan(sum) || std::isnan(x) ? NAN : std::fmin(sum, x);
    case ReduceFn::kLogSumExp: return sum + std::exp(x - top);
    default: return sum + x;
  }
}

double finish(ReduceFn fn, double sum, double terms, double top) {
  switch (fn) {
    case ReduceFn::kMean: return sum / terms;
    case ReduceFn::kL2: return std::sqrt(sum);
    case ReduceFn::kLogSumExp: return std::log(sum) + top;
    default: return sum;
  }
}

template <class T>
double fold_all(ReduceFn fn, const ReducePlan& plan, const T* x, double top) {
  double sum = start_of(fn);
  for (std::int64_t t = 0; t < plan.terms(); ++t) {
    sum = fold(fn, sum, static_cast<double>(x[offset_of(plan.reduced, t)]), top);
  }
  return sum;
}

template <class T>
Prepared float_kernel(ReduceFn fn, const ReducePlan& plan) {
  return function_kernel([fn, plan](const Buffers& b) {
    for (std::int64_t o = 0; o < plan.outputs(); ++o) {
      const T* x = b.in<T>(0) + offset_of(plan.kept, o);
      const double top = fn == ReduceFn::kLogSumExp ? fold_all(ReduceFn::kMax, plan, x, 0) : 0;
      const double about = std::isfinite(top) ? top : 0;
      const double sum = fold_all(fn, plan, x, about);
      b.out<T>(0)[o] = static_cast<T>(finish(fn, sum, static_cast<double>(plan.terms()), about));
    }
  });
}

// In 128 bits, of which products keep the last 64.
template <class T>
__int128 fold_integers(ReduceFn fn, const ReducePlan& plan, const T* x) {
  using Limits = std::numeric_limits<T>;
  __int128 sum = fn == ReduceFn::kMax ? Limits::min() : fn == ReduceFn::kMin ? Limits::max() : T{0};
  if (fn == ReduceFn::kProd) sum = 1;
  for (std::int64_t t = 0; t < plan.terms(); ++t) {
    const __int128 v = x[offset_of(plan.reduced, t)];
    switch (fn) {
      case ReduceFn::kL1: sum += v < 0 ? -v : v; break;
      case ReduceFn::kL2:
      case ReduceFn::kSumSquare: sum += v * v; break;
      case ReduceFn::kProd: sum = static_cast<std::uint64_t>(sum) * static_cast<std::uint64_t>(v); break;
      case ReduceFn::kMax: sum = v > sum ? v : sum; break;
      case ReduceFn::kMin: sum = v < sum ? v : sum; break;
      default: sum += v; break;
    }
  }
  return sum;
}

template <class T>
Prepared integer_kernel(ReduceFn fn, const ReducePlan& plan) {
  return function_kernel([fn, plan](const Buffers& b) {
    for (std::int64_t o = 0; o < plan.outputs(); ++o) {
      __int128 sum = fold_integers(fn, plan, b.in<T>(0) + offset_of(plan.kept, o));
      if (fn == ReduceFn::kMean) sum = plan.terms() == 0 ? 0 : sum / plan.terms();
      if (fn == ReduceFn::kL2) sum = static_cast<__int128>(std::sqrt(static_cast<double>(sum)));
      b.out<T>(0)[o] = static_cast<T>(sum);
    }
  });
}

Prepared kernel(DType type, ReduceFn fn, const ReducePlan& plan) {
  return with_type(type, [&]<class T>(Type<T>) {
    if constexpr (kIsInteger<T>) {
      return integer_kernel<T>(fn, plan);
    } else {
      return float_kernel<T>(fn, plan);
    }
  });
}

// d y / d x[at] among the terms of one result.
double slope(ReduceFn fn, const ReducePlan& plan, const float* x, std::int64_t at, double y) {
  const double value = x[offset_of(plan.reduced, at)];
  if (fn == ReduceFn::kL1) return value > 0 ? 1 : value < 0 ? -1 : value;
  if (fn == ReduceFn::kL2) return y == 0 ? 0 : value / y;
  if (fn == ReduceFn::kLogSumExp) return value == y ? 1 : std::exp(value - y);
  if (fn == ReduceFn::kSumSquare) return 2 * value;
  double others = 1;
  double ties = 0;
  for (std::int64_t t = 0; t < plan.terms(); ++t) {
    const double other = x[offset_of(plan.reduced, t)];
    if (t != at) others *= other;
    if (other == y) ties += 1;
  }
  if (fn == ReduceFn::kProd) return others;
  return value == y ? 1 / ties : 0;
}

}  // namespace

Prepared reduce_ref(const OpCall& call) {
  const Reduction reduction(call.attrs, call.shape(0).rank());
  return kernel(call.in(0).dtype, reduce_fn(call.op->name), reduce_plan(call.shape(0), reduction.is_reduced));
}

Prepared sum_to_ref(const OpCall& call) {
  const auto axes = broadcast_axes(call.shape(0), call.outputs[0].shape);
  return kernel(call.in(0).dtype, ReduceFn::kSum, reduce_plan(call.shape(0), axes));
}

Prepared reduce_grad_ref(const OpCall& call) {
  const Reduction reduction(call.attrs, call.shape(1).rank());
  return function_kernel(
      [fn = reduce_fn(call.op->name), plan = reduce_plan(call.shape(1), reduction.is_reduced)](const Buffers& b) {
        for (std::int64_t o = 0; o < plan.outputs(); ++o) {
          const std::int64_t from = offset_of(plan.kept, o);
          const double y = b.in<float>(2) != nullptr ? b.in<float>(2)[o] : 0;
          for (std::int64_t t = 0; t < plan.terms(); ++t) {
            const double d = slope(fn, plan, b.in<float>(1) + from, t, y);
            b.out<float>(0)[from + offset_of(plan.reduced, t)] = static_cast<float>(b.in<float>(0)[o] * d);
          }
        }
      });
}

Prepared reduce_sum_grad_ref(const OpCall& call) {
  const Shape& shape = call.outputs[0].shape;
  const bool is_broadcast = call.attrs.integer("broadcast", 0) != 0;
  const Shape kept = is_broadcast ? call.shape(0) : Reduction(call.attrs, shape.rank()).kept(shape);
  const bool is_mean = call.attrs.integer("mean", 0) != 0;
  return function_kernel(
      [plan = broadcast_plan(shape, {kept}), is_mean, inputs = call.in(0).elements()](const Buffers& b) {
        const double terms = is_mean ? static_cast<double>(plan.count) / static_cast<double>(inputs) : 1;
        for (std::int64_t i = 0; i < plan.count; ++i) {
          b.out<float>(0)[i] = static_cast<float>(b.in<float>(0)[broadcast_offsets(plan, i)[0]] / terms);
        }
      });
}

}  // namespace neap::ops
