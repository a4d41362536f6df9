#include "ops/unary/unary_simd.h"

#include "ops/elementwise/blocks.h"
#include "ops/unary/unary_function.h"

namespace neap::NEAP_ISA_NS {
namespace {

NEAP_VM vf load(const float* p) { return vload(p); }
NEAP_VM vf load(const float* p, std::int64_t n) { return vload_n(p, n); }
NEAP_VM void store(float* p, vf x) { vstore(p, x); }
NEAP_VM void store(float* p, vf x, std::int64_t n) { vstore_n(p, x, n); }
NEAP_VM vf load(const std::uint16_t* p) { return vload_bf16(p); }
NEAP_VM vf load(const std::uint16_t* p, std::int64_t n) { return vload_bf16_n(p, n); }
NEAP_VM void store(std::uint16_t* p, vf x) { vstore_bf16(p, x); }
NEAP_VM void store(std::uint16_t* p, vf x, std::int64_t n) { vstore_bf16_n(p, x, n); }

template <auto F, class T>
void map(const T* src, T* dst, std::int64_t n, UnaryArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const T* x = src + first;
    T* y = dst + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(y + i, F(load(x + i), args));
    if (i < count) store(y + i, F(load(x + i, count - i), args), count - i);
  });
}

template <auto F, class T>
void map_grad(const T* diff_dst, const T* saved, T* diff_src, std::int64_t n, UnaryArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const T* dy = diff_dst + first;
    const T* s = saved + first;
    T* dx = diff_src + first;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(dx + i, F(load(dy + i), load(s + i), args));
    const std::int64_t rest = count - i;
    if (rest > 0) store(dx + i, F(load(dy + i, rest), load(s + i, rest), args), rest);
  });
}

struct Forwards {
  UnaryTable::Forward f32;
  UnaryTable::ForwardBf16 bf16;
};
struct Backwards {
  UnaryTable::Backward f32 = nullptr;
  UnaryTable::BackwardBf16 bf16 = nullptr;
};
template <auto F>
constexpr Forwards kMaps = {map<F, float>, map<F, UnaryTable::Half>};
template <auto F>
constexpr Backwards kGrads = {map_grad<F, float>, map_grad<F, UnaryTable::Half>};

#define NEAP_FORWARD(expression) \
  kMaps<[]([[maybe_unused]] vf x, [[maybe_unused]] UnaryArgs k) -> vf { return (expression); }>
// s is the input or the output, as unary.cc says.
#define NEAP_BACKWARD(expression) \
  kGrads<[](vf dy, [[maybe_unused]] vf s, [[maybe_unused]] UnaryArgs k) -> vf { return (expression); }>
#define NEAP_LIBM(function) NEAP_FORWARD(by_lane(x, [](float v) { return __builtin_##function##f(v); }))

constexpr void set(UnaryTable& t, UnaryFn fn, Forwards forward, Backwards backward = {}) {
  t.forward[static_cast<int>(fn)] = forward.f32;
  t.backward[static_cast<int>(fn)] = backward.f32;
  t.forward_bf16[static_cast<int>(fn)] = forward.bf16;
  t.backward_bf16[static_cast<int>(fn)] = backward.bf16;
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
