#include <cmath>
#include <type_traits>

#include "neap/error.h"
#include "ops/binary/binary.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"

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

float value(BinaryFn fn, float x, float y) {
  const double a = x;
  const double b = y;
  switch (fn) {
    case BinaryFn::kAdd: return static_cast<float>(a + b);
    case BinaryFn::kSub: return static_cast<float>(a - b);
    case BinaryFn::kMul: return static_cast<float>(a * b);
    case BinaryFn::kDiv: return static_cast<float>(a / b);
    case BinaryFn::kMin: return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y);
    case BinaryFn::kMax: return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y);
    case BinaryFn::kMod: return static_cast<float>(floored_rest(a, b));
    case BinaryFn::kFmod: return static_cast<float>(std::fmod(a, b));
    case BinaryFn::kPow: return static_cast<float>(std::pow(a, b));
    default: throw InternalError("no function of floats");
  }
}

// In 128 bits nothing overflows; narrowing then wraps around.
template <class T>
T value(BinaryFn fn, T x, T y) {
  const __int128 a = x;
  const __int128 b = y;
  const __int128 rest = b == 0 ? 0 : a % b;
  switch (fn) {
    case BinaryFn::kAdd: return static_cast<T>(a + b);
    case BinaryFn::kSub: return static_cast<T>(a - b);
    case BinaryFn::kMul: return static_cast<T>(a * b);
    case BinaryFn::kDiv: return static_cast<T>(b == 0 ? 0 : a / b);
    case BinaryFn::kMin: return x < y ? x : y;
    case BinaryFn::kMax: return x > y ? x : y;
    case BinaryFn::kMod: return static_cast<T>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    case BinaryFn::kFmod: return static_cast<T>(rest);
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
          const T x = b.in<T>(0)[at[0]];
          const T y = b.in<T>(1)[at[1]];
          if (fn >= BinaryFn::kEqual) {
            b.out<std::uint8_t>(0)[i] = holds(fn, x, y) ? 1 : 0;
          } else {
            b.out<T>(0)[i] = value(fn, x, y);
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
  switch (call.in(0).dtype) {
    case DType::kF32: return kernel<float>(call);
    case DType::kI32: return kernel<std::int32_t>(call);
    case DType::kI64: return kernel<std::int64_t>(call);
    default: return kernel<std::uint8_t>(call);
  }
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
