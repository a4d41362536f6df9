#include "ops/binary/binary_simd.h"

#include "ops/elementwise/broadcast_walk.h"

namespace neap::NEAP_ISA_NS {
namespace {

// T is also the type of the result, except for comparisons: a byte.
template <class T, class R, auto F>
void run(const BroadcastPlan& plan, const void* a, const void* b, void* dst) {
  const bool a_repeats = plan.is_repeated(0);
  const bool b_repeats = plan.is_repeated(1);
  walk<2>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
    const T* x = static_cast<const T*>(a) + offset[0];
    const T* y = static_cast<const T*>(b) + offset[1];
    R* z = static_cast<R*>(dst) + at;
    if (b_repeats) {
      const T second = y[0];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) z[i] = F(x[i], second);
    } else if (a_repeats) {
      const T first = x[0];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) z[i] = F(first, y[i]);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) z[i] = F(x[i], y[i]);
    }
  });
}

// Integers wrap around; a quotient by 0 is 0.
template <class T>
struct Unsigned;
template <>
struct Unsigned<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Unsigned<std::int64_t> {
  using type = std::uint64_t;
};

template <class T>
inline T integer_quotient(T x, T y) {
  using U = typename Unsigned<T>::type;
  return y == 0 ? 0 : y == -1 ? static_cast<T>(U{0} - static_cast<U>(x)) : x / y;
}
template <class T>
inline T integer_rest(T x, T y) {
  return y == 0 || y == -1 ? 0 : x % y;
}

inline float floored_rest(float x, float y) {
  const float r = __builtin_fmodf(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : __builtin_copysignf(r, y);
}

// NaN wins.
template <class T>
inline T least(T x, T y) {
  return x < y || x != x ? x : y;
}
template <class T>
inline T greatest(T x, T y) {
  return x > y || x != x ? x : y;
}

// For the powers that networks are full of; at most one rounding apart from libm's.
void pow_by_scalar(const BroadcastPlan& plan, const float* x, float y, float* dst) {
  for_blocks(plan.count, [=](std::int64_t first, std::int64_t count) {
    const float* p = x + first;
    float* z = dst + first;
    if (y == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) z[i] = p[i];
    } else if (y == 2) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) z[i] = p[i] * p[i];
    } else if (y == 3) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) z[i] = p[i] * p[i] * p[i];
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) z[i] = 1.0F / p[i];
    }
  });
}

void pow_f32(const BroadcastPlan& plan, const void* a, const void* b, void* dst) {
  if (plan.count == 0) return;
  const bool is_scalar = plan.rank == 1 && plan.is_repeated(1) && !plan.is_repeated(0);
  const float y = *static_cast<const float*>(b);
  if (is_scalar && (y == 1 || y == 2 || y == 3 || y == -1)) {
    pow_by_scalar(plan, static_cast<const float*>(a), y, static_cast<float*>(dst));
  } else {
    run<float, float, [](float p, float q) { return __builtin_powf(p, q); }>(plan, a, b, dst);
  }
}

template <auto F>
void grad(const BroadcastPlan& plan, const float* dy, const float* p, const float* q, float* dst) {
  // dy has the shape of the result.
  with_flag(plan.is_repeated(1), [&](auto p_repeats) {
    with_flag(plan.is_repeated(2), [&](auto q_repeats) {
      walk<3>(plan, [=](const std::int64_t* offset, std::int64_t at, std::int64_t n) {
        const float* flow = dy + offset[0];
        const float* second = p + offset[1];
        const float* third = q + offset[2];
        float* z = dst + at;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          z[i] = F(flow[i], second[p_repeats.value ? 0 : i], third[q_repeats.value ? 0 : i]);
        }
      });
    });
  });
}

inline float base_slope(float dy, float x, float y) {
  const float slope = y == 2 ? x : y == 3 ? x * x : __builtin_powf(x, y - 1);
  return y == 0 ? 0 : dy * (y * slope);
}

// At 0 the power is flat in its exponent, unless that is negative.
inline float exponent_slope(float dy, float x, float power) {
  return x == 0 && __builtin_isfinite(power) ? 0 : dy * (power * __builtin_logf(x));
}

inline float least_share(float dy, float x, float y) { return x == y ? 0.5F * dy : x < y ? dy : 0; }
inline float greatest_share(float dy, float x, float y) { return x == y ? 0.5F * dy : x > y ? dy : 0; }

template <class T>
constexpr void set_shared(BinaryTable::Run* t) {
  const auto set = [t](BinaryFn fn, BinaryTable::Run run) { t[static_cast<int>(fn)] = run; };
  set(BinaryFn::kMin, run<T, T, [](T x, T y) { return least(x, y); }>);
  set(BinaryFn::kMax, run<T, T, [](T x, T y) { return greatest(x, y); }>);
  using Byte = std::uint8_t;
  set(BinaryFn::kEqual, run<T, Byte, [](T x, T y) -> Byte { return x == y; }>);
  set(BinaryFn::kLess, run<T, Byte, [](T x, T y) -> Byte { return x < y; }>);
  set(BinaryFn::kLessOrEqual, run<T, Byte, [](T x, T y) -> Byte { return x <= y; }>);
  set(BinaryFn::kGreater, run<T, Byte, [](T x, T y) -> Byte { return (x > y); }>);
  set(BinaryFn::kGreaterOrEqual, run<T, Byte, [](T x, T y) -> Byte { return x >= y; }>);
}

template <class T>
constexpr void set_integers(BinaryTable::Run* t) {
  using U = typename Unsigned<T>::type;
  const auto set = [t](BinaryFn fn, BinaryTable::Run run) { t[static_cast<int>(fn)] = run; };
  set_shared<T>(t);
  set(BinaryFn::kAdd, run<U, U, [](U x, U y) { return x + y; }>);
  set(BinaryFn::kSub, run<U, U, [](U x, U y) { return x - y; }>);
  set(BinaryFn::kMul, run<U, U, [](U x, U y) { return x * y; }>);
  set(BinaryFn::kDiv, run<T, T, [](T x, T y) { return integer_quotient(x, y); }>);
  set(BinaryFn::kFmod, run<T, T, [](T x, T y) { return integer_rest(x, y); }>);
  set(BinaryFn::kMod, run<T, T, [](T x, T y) -> T {
        const T r = integer_rest(x, y);
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
      }>);
}

constexpr void set_floats(BinaryTable::Run* t) {
  const auto set = [t](BinaryFn fn, BinaryTable::Run run) { t[static_cast<int>(fn)] = run; };
  set_shared<float>(t);
  set(BinaryFn::kAdd, run<float, float, [](float x, float y) { return x + y; }>);
  set(BinaryFn::kSub, run<float, float, [](float x, float y) { return x - y; }>);
  set(BinaryFn::kMul, run<float, float, [](float x, float y) { return x * y; }>);
  set(BinaryFn::kDiv, run<float, float, [](float x, float y) { return x / y; }>);
  set(BinaryFn::kFmod, run<float, float, [](float x, float y) { return __builtin_fmodf(x, y); }>);
  set(BinaryFn::kMod, run<float, float, [](float x, float y) { return floored_rest(x, y); }>);
  set(BinaryFn::kPow, pow_f32);
}

constexpr BinaryTable make_table() {
  BinaryTable t{};
  set_floats(t.run[static_cast<int>(BinaryType::kF32)]);
  set_integers<std::int32_t>(t.run[static_cast<int>(BinaryType::kI32)]);
  set_integers<std::int64_t>(t.run[static_cast<int>(BinaryType::kI64)]);
  const auto set = [&t](BinaryGradFn fn, BinaryTable::Grad run) { t.grad[static_cast<int>(fn)] = run; };
  set(BinaryGradFn::kDivisor, grad<[](float dy, float y, float b) { return -dy * y / b; }>);
  set(BinaryGradFn::kBase, grad<[](float dy, float a, float b) { return base_slope(dy, a, b); }>);
  set(BinaryGradFn::kExponent, grad<[](float dy, float a, float y) { return exponent_slope(dy, a, y); }>);
  set(BinaryGradFn::kMin, grad<[](float dy, float a, float b) { return least_share(dy, a, b); }>);
  set(BinaryGradFn::kMax, grad<[](float dy, float a, float b) { return greatest_share(dy, a, b); }>);
  return t;
}

}  // namespace

const BinaryTable& binary_table() {
  static constexpr BinaryTable kTable = make_table();
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
