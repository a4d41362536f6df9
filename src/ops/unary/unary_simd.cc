#include "ops/unary/unary_simd.h"

#include "ops/elementwise/blocks.h"
#include "ops/unary/unary_function.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <auto F>
void map(const float* src, float* dst, std::int64_t n, UnaryArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* x = src + first;
    float* y = dst + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) vstore(y + i, F(vload(x + i), args));
    if (i < count) vstore_n(y + i, F(vload_n(x + i, count - i), args), count - i);
  });
}

template <auto F>
void map_grad(const float* diff_dst, const float* saved, float* diff_src, std::int64_t n, UnaryArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const float* dy = diff_dst + first;
    const float* s = saved + first;
    float* dx = diff_src + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) vstore(dx + i, F(vload(dy + i), vload(s + i), args));
    const std::int64_t rest = count - i;
    if (rest > 0) vstore_n(dx + i, F(vload_n(dy + i, rest), vload_n(s + i, rest), args), rest);
  });
}

#define NEAP_FORWARD(expression) \
  map<[]([[maybe_unused]] vf x, [[maybe_unused]] UnaryArgs k) -> vf { return (expression); }>
// s is the input or the output, as unary.cc says.
#define NEAP_BACKWARD(expression) \
  map_grad<[](vf dy, [[maybe_unused]] vf s, [[maybe_unused]] UnaryArgs k) -> vf { return (expression); }>
#define NEAP_LIBM(function) NEAP_FORWARD(by_lane(x, [](float v) { return __builtin_##function##f(v); }))

constexpr void set(UnaryTable& t, UnaryFn fn, UnaryTable::Forward forward, UnaryTable::Backward backward = nullptr) {
  t.forward[static_cast<int>(fn)] = forward;
  t.backward[static_cast<int>(fn)] = backward;
}

constexpr void set_activations(UnaryTable& t) {
  set(t, UnaryFn::kElu, NEAP_FORWARD(x > 0.0F ? x : k.a * vexpm1(x)), NEAP_BACKWARD(s > 0.0F ? dy : dy * (s + k.a)));
  set(t, UnaryFn::kSelu, NEAP_FORWARD(k.b * (x > 0.0F ? x : k.a * vexpm1(x))),
      NEAP_BACKWARD(dy * (s > 0.0F ? vset(k.b) : s + k.a * k.b)));
  set(t, UnaryFn::kCelu, NEAP_FORWARD(x > 0.0F ? x : k.a * vexpm1(x / k.a)),
      NEAP_BACKWARD(s > 0.0F ? dy : dy * (s / k.a + 1.0F)));
  set(t, UnaryFn::kHardSwish, NEAP_FORWARD(vhard_swish(x)), NEAP_BACKWARD(dy * vhard_swish_slope(s)));
  set(t, UnaryFn::kSoftplus, NEAP_FORWARD(vsoftplus(x)), NEAP_BACKWARD(-dy * vexpm1(-s)));
  set(t, UnaryFn::kSoftsign, NEAP_FORWARD(vsoftsign(x)), NEAP_BACKWARD(dy * (1.0F - vabs(s)) * (1.0F - vabs(s))));
  set(t, UnaryFn::kMish, NEAP_FORWARD(vmish(x)), NEAP_BACKWARD(dy * vmish_slope(s)));
  set(t, UnaryFn::kGelu, NEAP_FORWARD(vgelu(x)), NEAP_BACKWARD(dy * vgelu_slope(s)));
  set(t, UnaryFn::kGeluTanh, NEAP_FORWARD(vgelu_tanh(x)), NEAP_BACKWARD(dy * vgelu_tanh_slope(s)));
  set(t, UnaryFn::kSilu, NEAP_FORWARD(vsilu(x)), NEAP_BACKWARD(dy * vsilu_slope(s)));
  set(t, UnaryFn::kSigmoid, NEAP_FORWARD(vsigmoid(x)), NEAP_BACKWARD(dy * s * (1.0F - s)));
  set(t, UnaryFn::kTanh, NEAP_FORWARD(vtanh(x)), NEAP_BACKWARD(dy * (1.0F - s * s)));
  set(t, UnaryFn::kErf, NEAP_FORWARD(verf(x)), NEAP_BACKWARD(dy * 1.12837917F * vexp(-s * s)));
}

constexpr void set_arithmetic(UnaryTable& t) {
  set(t, UnaryFn::kExp, NEAP_FORWARD(vexp(x)));
  set(t, UnaryFn::kLog, NEAP_FORWARD(vlog(x)));
  set(t, UnaryFn::kLog1p, NEAP_FORWARD(vlog1p(x)), NEAP_BACKWARD(dy / (1.0F + s)));
  set(t, UnaryFn::kSqrt, NEAP_FORWARD(vsqrt(x)), NEAP_BACKWARD(dy * 0.5F / s));
  set(t, UnaryFn::kRsqrt, NEAP_FORWARD(vrsqrt(x)), NEAP_BACKWARD(dy * -0.5F * s * s * s));
  set(t, UnaryFn::kReciprocal, NEAP_FORWARD(1.0F / x), NEAP_BACKWARD(-dy * s * s));
  set(t, UnaryFn::kNeg, NEAP_FORWARD(-x));
  set(t, UnaryFn::kAbs, NEAP_FORWARD(vabs(x)), NEAP_BACKWARD(dy * vsign(s)));
  set(t, UnaryFn::kSquare, NEAP_FORWARD(x * x), NEAP_BACKWARD(dy * 2.0F * s));
  set(t, UnaryFn::kFloor, NEAP_FORWARD(vfloor(x)));
  set(t, UnaryFn::kCeil, NEAP_FORWARD(vceil(x)));
  set(t, UnaryFn::kRound, NEAP_FORWARD(vround_even(x)));
  set(t, UnaryFn::kSign, NEAP_FORWARD(vsign(x)));
}

constexpr void set_trigonometry(UnaryTable& t) {
  set(t, UnaryFn::kSin, NEAP_FORWARD(vsin(x)), NEAP_BACKWARD(dy * vcos(s)));
  set(t, UnaryFn::kCos, NEAP_FORWARD(vcos(x)), NEAP_BACKWARD(-dy * vsin(s)));
  set(t, UnaryFn::kTan, NEAP_LIBM(tan), NEAP_BACKWARD(dy * (1.0F + s * s)));
  set(t, UnaryFn::kAsin, NEAP_LIBM(asin), NEAP_BACKWARD(dy / vsqrt((1.0F - s) * (1.0F + s))));
  set(t, UnaryFn::kAcos, NEAP_LIBM(acos), NEAP_BACKWARD(-dy / vsqrt((1.0F - s) * (1.0F + s))));
  set(t, UnaryFn::kAtan, NEAP_LIBM(atan), NEAP_BACKWARD(dy / (1.0F + s * s)));
  set(t, UnaryFn::kSinh, NEAP_LIBM(sinh), NEAP_BACKWARD(dy * by_lane(s, [](float v) { return __builtin_coshf(v); })));
  set(t, UnaryFn::kCosh, NEAP_LIBM(cosh), NEAP_BACKWARD(dy * by_lane(s, [](float v) { return __builtin_sinhf(v); })));
  set(t, UnaryFn::kAsinh, NEAP_LIBM(asinh), NEAP_BACKWARD(dy / vsqrt(s * s + 1.0F)));
  set(t, UnaryFn::kAcosh, NEAP_LIBM(acosh), NEAP_BACKWARD(dy / vsqrt((s - 1.0F) * (s + 1.0F))));
  set(t, UnaryFn::kAtanh, NEAP_LIBM(atanh), NEAP_BACKWARD(dy / ((1.0F - s) * (1.0F + s))));
}

constexpr UnaryTable make_table() {
  UnaryTable t{};
  set_activations(t);
  set_arithmetic(t);
  set_trigonometry(t);
  return t;
}

}  // namespace

const UnaryTable& unary_table() {
  static constexpr UnaryTable kTable = make_table();
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
