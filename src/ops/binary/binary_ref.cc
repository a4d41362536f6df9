#include <cmath>

#include "neap/error.h"
#include "ops/binary/binary.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

template <class T>
bool holds(BinaryFn fn, T a, T b) {
  switch (fn) {
    case BinaryFn::kEqual: return a == b;
    case BinaryFn::kLess: return a < b;
    case BinaryFn::kLessOrEqual: return a <= b;
    case BinaryFn::kGreater: return a > b;
    case BinaryFn::kGreaterOrEqual: return a >= b;
    default: throw InternalError("no comparison");
  }
}

double floored_rest(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : std::copysign(r, b);
}

double value(BinaryFn fn, double a, double b) {
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return a * b;
    case BinaryFn::kDiv: return a / b;
    case BinaryFn::kMin: return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b);
    case BinaryFn::kMax: return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
    case BinaryFn::kMod: return floored_rest(a, b);
    case BinaryFn::kFmod: return std::fmod(a, b);
    case BinaryFn::kPow: return std::pow(a, b);
    default: throw InternalError("no function of floats");
  }
}

// Of the last 64 bits, which is what is kept. A fraction is cut, that of 0 is 0.
__int128 power(__int128 base, __int128 exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1;
  for (auto square = static_cast<std::uint64_t>(base); exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 != 0) result *= square;
  }
  return result;
}

__int128 value(BinaryFn fn, __int128 a, __int128 b) {
  const __int128 rest = b == 0 ? 0 : a % b;
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
    case BinaryFn::kDiv: return b == 0 ? 0 : a / b;
    case BinaryFn::kMin: return a < b ? a : b;
    case BinaryFn::kMax: return a > b ? a : b;
    case BinaryFn::kMod: return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    case BinaryFn::kFmod: return rest;
    case BinaryFn::kPow: return power(a, b);
    default: throw InternalError("no function of integers");
  }
}

template <class T>
Prepared kernel(const OpCall& call) {
  return function_kernel(
      [fn = binary_fn(call),
       plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](const Buffers& b) {
        for (std::int64_t i = 0; i < plan.count; ++i) {
          const auto at = broadcast_offsets(plan, i);
          const Compute<T> x = b.in<T>(0)[at[0]];
          const Compute<T> y = b.in<T>(1)[at[1]];
          if (fn >= BinaryFn::kEqual) {
            b.out<std::uint8_t>(0)[i] = holds(fn, x, y) ? 1 : 0;
          } else {
            b.out<T>(0)[i] = static_cast<T>(value(fn, x, y));
          }
        }
      });
}

// The power of one type to another: by integers exactly, else by way of doubles.
Prepared mixed_power(const OpCall& call) {
  return function_kernel(
      [to = call.in(0).dtype, by = call.in(1).dtype,
       plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1)})](const Buffers& b) {
        for (std::int64_t i = 0; i < plan.count; ++i) {
          const auto at = broadcast_offsets(plan, i);
          if (is_integer(to) && is_integer(by)) {
            const __int128 y = power(integer_at(to, b.inputs[0], at[0]), integer_at(by, b.inputs[1], at[1]));
            with_type(to, [&]<class T>(Type<T>) { b.out<T>(0)[i] = static_cast<T>(static_cast<std::int64_t>(y)); });
          } else {
            set_real(to, b.outputs[0], i, std::pow(real_at(to, b.inputs[0], at[0]), real_at(by, b.inputs[1], at[1])));
          }
        }
      });
}

double gradient(BinaryGradFn fn, double dy, double p, double q) {
  switch (fn) {
    case BinaryGradFn::kDivisor: return -dy * p / q;
    case BinaryGradFn::kBase: return q == 0 ? 0 : dy * q * std::pow(p, q - 1);
    case BinaryGradFn::kExponent: return p == 0 && std::isfinite(q) ? 0 : dy * q * std::log(p);
    case BinaryGradFn::kMin: return p == q ? dy / 2 : p < q ? dy : 0;
    case BinaryGradFn::kMax: return p == q ? dy / 2 : p > q ? dy : 0;
    case BinaryGradFn::kCount: break;
  }
  throw InternalError("no gradient");
}

}  // namespace

Prepared binary_ref(const OpCall& call) {
  if (call.in(0).dtype != call.in(1).dtype) return mixed_power(call);
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) { return kernel<T>(call); });
}

Prepared binary_grad_ref(const OpCall& call) {
  return function_kernel(
      [fn = binary_grad_fn(call),
       plan = broadcast_plan(call.outputs[0].shape, {call.shape(0), call.shape(1), call.shape(2)})](const Buffers& b) {
        for (std::int64_t i = 0; i < plan.count; ++i) {
          const auto at = broadcast_offsets(plan, i);
          b.out<float>(0)[i] =
              static_cast<float>(gradient(fn, b.in<float>(0)[at[0]], b.in<float>(1)[at[1]], b.in<float>(2)[at[2]]));
        }
      });
}

}  // namespace neap::ops
