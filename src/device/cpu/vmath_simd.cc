#include "device/cpu/vmath_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

template <class Function>
NEAP_VM void map(const float* src, float* dst, std::int64_t n, Function function) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore(dst + i, function(vload(src + i)));
  vstore_n(dst + i, function(vload_n(src + i, n - i)), n - i);
}

void exp(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vexp(x); });
}
void log(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vlog(x); });
}
void tanh(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vtanh(x); });
}
void sigmoid(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vsigmoid(x); });
}
void erf(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return verf(x); });
}
void rsqrt(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vrsqrt(x); });
}
void sin(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vsin(x); });
}
void cos(const float* src, float* dst, std::int64_t n) {
  map(src, dst, n, [](vf x) { return vcos(x); });
}

float sum(const float* src, std::int64_t n) {
  vf total{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total += vload(src + i);
  return vsum_lanes(total + vload_n(src + i, n - i));
}

float max(const float* src, std::int64_t n) {
  const float lowest = -__builtin_inff();
  vf best = vset(lowest);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) best = vmax(best, vload(src + i));
  return vmax_lanes(vmax(best, vload_n(src + i, n - i, lowest)));
}

void fma(const float* a, const float* b, const float* c, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore(dst + i, vfma(vload(a + i), vload(b + i), vload(c + i)));
  const std::int64_t rest = n - i;
  vstore_n(dst + i, vfma(vload_n(a + i, rest), vload_n(b + i, rest), vload_n(c + i, rest)), rest);
}

void nearest(const float* src, std::int32_t* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore(dst + i, vnearest(vload(src + i)));
  const vi last = vnearest(vload_n(src + i, n - i));
  for (std::int64_t lane = 0; i + lane < n; ++lane) dst[i + lane] = last[lane];
}

void to_bf16(const float* src, std::uint16_t* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore_bf16(dst + i, vload(src + i));
  vstore_bf16_n(dst + i, vload_n(src + i, n - i), n - i);
}
void from_bf16(const std::uint16_t* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore(dst + i, vload_bf16(src + i));
  vstore_n(dst + i, vload_bf16_n(src + i, n - i), n - i);
}
void to_f16(const float* src, std::uint16_t* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore_f16(dst + i, vload(src + i));
  vstore_f16_n(dst + i, vload_n(src + i, n - i), n - i);
}
void from_f16(const std::uint16_t* src, float* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vstore(dst + i, vload_f16(src + i));
  vstore_n(dst + i, vload_f16_n(src + i, n - i), n - i);
}

void philox(std::uint64_t key, std::uint64_t index, std::uint64_t stream, std::uint32_t* words, float* units,
            std::int64_t blocks) {
  for (std::int64_t block = 0; block < blocks; ++block) {
    const RandomWords drawn = vphilox(key, index + static_cast<std::uint64_t>(block * kLanes), stream);
    const RandomWords ordered = in_stream_order(drawn);
    for (int v = 0; v < 4; ++v) {
      const std::int64_t at = (block * 4 + v) * kLanes;
      vstore(words + at, ordered.word[v]);
      vstore(units + at, vunit_float(ordered.word[v]));
    }
  }
}

}  // namespace

const VmathTable& vmath_table() {
  static constexpr VmathTable table = {kLanes, exp, log, tanh,    sigmoid, erf,       rsqrt,  sin,      cos,
                                       sum,    max, fma, nearest, to_bf16, from_bf16, to_f16, from_f16, philox};
  return table;
}

}  // namespace neap::NEAP_ISA_NS
