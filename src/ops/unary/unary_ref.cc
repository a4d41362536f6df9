#include <cmath>
#include <limits>
#include <numbers>

#include "neap/error.h"
#include "ops/elementwise/element.h"
#include "ops/unary/unary.h"

namespace neap::ops {
namespace {

double sigmoid_of(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double phi_of(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// 0 * inf = 0: the limit where `factor` falls faster than x grows.
double times_fading(double x, double factor) { return factor == 0 ? 0 : x * factor; }
// sqrt(2 / pi) (x + 0.044715 x^3) of gelu's tanh form, and its slope
double gelu_inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
double gelu_inner_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x); }

double activation(UnaryFn fn, double x, UnaryArgs k) {
  switch (fn) {
    case UnaryFn::kElu: return x > 0 ? x : k.a * std::expm1(x);
    case UnaryFn::kSelu: return k.b * (x > 0 ? x : k.a * std::expm1(x));
    case UnaryFn::kCelu: return x > 0 ? x : k.a * std::expm1(x / k.a);
    case UnaryFn::kHardSwish: return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    case UnaryFn::kSoftplus: return std::isnan(x) ? x : softplus_of(x);
    case UnaryFn::kSoftsign: return std::isinf(x) ? sign_of(x) : x / (1 + std::fabs(x));
    case UnaryFn::kMish: return times_fading(x, std::isnan(x) ? x : std::tanh(softplus_of(x)));
    case UnaryFn::kGelu: return times_fading(x, phi_of(x));
    case UnaryFn::kGeluTanh: return times_fading(x, sigmoid_of(2 * gelu_inner(x)));
    case UnaryFn::kSilu: return times_fading(x, sigmoid_of(x));
    case UnaryFn::kSigmoid: return sigmoid_of(x);
    case UnaryFn::kTanh: return std::tanh(x);
    case UnaryFn::kErf: return std::erf(x);
    default: throw InternalError("no activation");
  }
}

double arithmetic(UnaryFn fn, double x) {
  switch (fn) {
    case UnaryFn::kExp: return std::exp(x);
    case UnaryFn::kLog: return std::log(x);
    case UnaryFn::kLog1p: return std::log1p(x);
    case UnaryFn::kSqrt: return std::sqrt(x);
    case UnaryFn::kRsqrt: return 1 / std::sqrt(x);
    case UnaryFn::kReciprocal: return 1 / x;
    case UnaryFn::kNeg: return -x;
    case UnaryFn::kAbs: return std::fabs(x);
    case UnaryFn::kSquare: return x * x;
    case UnaryFn::kFloor: return std::floor(x);
    case UnaryFn::kCeil: return std::ceil(x);
    case UnaryFn::kRound: return std::nearbyint(x);
    case UnaryFn::kSign: return sign_of(x);
    case UnaryFn::kSin: return std::sin(x);
    case UnaryFn::kCos: return std::cos(x);
    case UnaryFn::kTan: return std::tan(x);
    case UnaryFn::kAsin: return std::asin(x);
    case UnaryFn::kAcos: return std::acos(x);
    case UnaryFn::kAtan: return std::atan(x);
    case UnaryFn::kSinh: return std::sinh(x);
    case UnaryFn::kCosh: return std::cosh(x);
    case UnaryFn::kAsinh: return std::asinh(x);
    case UnaryFn::kAcosh: return std::acosh(x);
    case UnaryFn::kAtanh: return std::atanh(x);
    default: throw InternalError("no function");
  }
}

double forward(UnaryFn fn, double x, UnaryArgs k) {
  return fn <= UnaryFn::kErf ? activation(fn, x, k) : arithmetic(fn, x);
}

double mish_slope(double x) {
  const double t = std::isnan(x) ? x : std::tanh(softplus_of(x));
  return t + times_fading(x, (1 - t * t) * sigmoid_of(x));
}

double gelu_tanh_slope(double x) {
  const double s = sigmoid_of(2 * gelu_inner(x));
  return s + times_fading(2 * x * gelu_inner_slope(x), s * (1 - s));
}

// df/dx of what was saved, the input or the output.
double activation_slope(UnaryFn fn, double s, UnaryArgs k) {
  switch (fn) {
    case UnaryFn::kElu: return s > 0 ? 1 : s + k.a;
    case UnaryFn::kSelu: return s > 0 ? k.b : s + static_cast<double>(k.a) * k.b;
    case UnaryFn::kCelu: return s > 0 ? 1 : s / k.a + 1;
    case UnaryFn::kHardSwish: return s <= -3 ? 0 : s >= 3 ? 1 : s / 3 + 0.5;
    case UnaryFn::kSoftplus: return -std::expm1(-s);
    case UnaryFn::kSoftsign: return (1 - std::fabs(s)) * (1 - std::fabs(s));
    case UnaryFn::kMish: return mish_slope(s);
    case UnaryFn::kGelu:
      return phi_of(s) + times_fading(s, std::exp(-s * s / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    case UnaryFn::kGeluTanh: return gelu_tanh_slope(s);
    case UnaryFn::kSilu: return sigmoid_of(s) + times_fading(s, sigmoid_of(s) * sigmoid_of(-s));
    case UnaryFn::kSigmoid: return s * (1 - s);
    case UnaryFn::kTanh: return 1 - s * s;
    case UnaryFn::kErf: return 2 * std::numbers::inv_sqrtpi * std::exp(-s * s);
    default: throw InternalError("no activation");
  }
}

double slope(UnaryFn fn, double s, UnaryArgs k) {
  switch (fn) {
    case UnaryFn::kLog1p: return 1 / (1 + s);
    case UnaryFn::kSqrt: return 0.5 / s;
    case UnaryFn::kRsqrt: return -0.5 * s * s * s;
    case UnaryFn::kReciprocal: return -s * s;
    case UnaryFn::kAbs: return sign_of(s);
    case UnaryFn::kSquare: return 2 * s;
    case UnaryFn::kSin: return std::cos(s);
    case UnaryFn::kCos: return -std::sin(s);
    case UnaryFn::kTan: return 1 + s * s;
    case UnaryFn::kAsin: return 1 / std::sqrt(1 - s * s);
    case UnaryFn::kAcos: return -1 / std::sqrt(1 - s * s);
    case UnaryFn::kAtan: return 1 / (1 + s * s);
    case UnaryFn::kSinh: return std::cosh(s);
    case UnaryFn::kCosh: return std::sinh(s);
    case UnaryFn::kAsinh: return 1 / std::sqrt(s * s + 1);
    case UnaryFn::kAcosh: return 1 / std::sqrt((s - 1) * (s + 1));
    case UnaryFn::kAtanh: return 1 / (1 - s * s);
    default: return activation_slope(fn, s, k);
  }
}

// Two's complement throughout: the most negative number is its own negative.
template <class T>
T integer(UnaryFn fn, T x) {
  using U = std::make_unsigned_t<T>;
  const U bits = static_cast<U>(x);
  switch (fn) {
    case UnaryFn::kNeg: return static_cast<T>(U{0} - bits);
    case UnaryFn::kAbs: return x < 0 ? static_cast<T>(U{0} - bits) : x;
    case UnaryFn::kSquare: return static_cast<T>(std::uint64_t{bits} * bits);
    case UnaryFn::kSign: return static_cast<T>(x > 0 ? 1 : x < 0 ? -1 : 0);
    default: throw InternalError("no function of integers");
  }
}

template <class T>
Prepared integer_kernel(UnaryFn fn, std::int64_t n) {
  return function_kernel([fn, n](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) b.out<T>(0)[i] = integer(fn, b.in<T>(0)[i]);
  });
}

}  // namespace

Prepared unary_ref(const OpCall& call) {
  const std::int64_t n = call.in(0).elements();
  const UnaryCall unary = unary_call(call);
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (kIsInteger<T>) {
      return integer_kernel<T>(unary.fn, n);
    } else {
      return function_kernel([unary, n](const Buffers& b) {
        for (std::int64_t i = 0; i < n; ++i) {
          b.out<T>(0)[i] = static_cast<T>(forward(unary.fn, b.in<T>(0)[i], unary.args));
        }
      });
    }
  });
}

Prepared unary_grad_ref(const OpCall& call) {
  return function_kernel([unary = unary_call(call), n = call.in(0).elements()](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) {
      b.out<float>(0)[i] = static_cast<float>(b.in<float>(0)[i] * slope(unary.fn, b.in<float>(1)[i], unary.args));
    }
  });
}

}  // namespace neap::ops
