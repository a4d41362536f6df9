// Pooling over whole images. Work is divided into (image, channels of one vector group): no sum crosses a division.
#include "device/cpu/vmath.h"
#include "ops/pool/pool_simd.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Rows that are summed before their sum joins the total: keeps the rounding error of long sums small.
constexpr std::int64_t kRowsTogether = 32;

vf average_lanes(const GlobalShape& s, const float* x, std::int64_t n) {
  vf total{};
  for (std::int64_t from = 0; from < s.rows; from += kRowsTogether) {
    const std::int64_t to = from + kRowsTogether < s.rows ? from + kRowsTogether : s.rows;
    vf part{};
    for (std::int64_t r = from; r < to; ++r) part += n == kLanes ? vload(x + r * s.c) : vload_n(x + r * s.c, n);
    total += part;
  }
  return total / static_cast<float>(s.rows);
}

}  // namespace

void global_average(GlobalShape s, const float* x, float* y) {
  const std::int64_t groups = (s.c + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.n * groups; ++i) {
    const std::int64_t c = i % groups * kLanes;
    const std::int64_t n = s.c - c < kLanes ? s.c - c : kLanes;
    vstore_n(y + i / groups * s.c + c, average_lanes(s, x + i / groups * s.rows * s.c + c, n), n);
  }
}

void global_average_grad(GlobalShape s, const float* dy, float* dx) {
  const float count = static_cast<float>(s.rows);
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.rows; ++r) {
    const float* from = dy + r / s.rows * s.c;
    for (std::int64_t c = 0; c < s.c; ++c) dx[r * s.c + c] = from[c] / count;
  }
}

void global_max(GlobalShape s, const float* x, float* y, std::int32_t* index) {
  const std::int64_t groups = (s.c + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.n * groups; ++i) {
    const std::int64_t c = i % groups * kLanes;
    const std::int64_t n = s.c - c < kLanes ? s.c - c : kLanes;
    const float* from = x + i / groups * s.rows * s.c + c;
    vf best = vload_n(from, n);
    vi at{};
    for (std::int64_t r = 1; r < s.rows; ++r) {
      const vf v = n == kLanes ? vload(from + r * s.c) : vload_n(from + r * s.c, n);
      const vi larger = (v > best) | (v != v);
      best = larger ? v : best;
      at = larger ? vset(static_cast<std::int32_t>(r)) : at;
    }
    vstore_n(y + i / groups * s.c + c, best, n);
    if (index == nullptr) continue;
    for (std::int64_t l = 0; l < n; ++l) index[i / groups * s.c + c + l] = at[l];
  }
}

void global_max_grad(GlobalShape s, const float* dy, const std::int32_t* index, float* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.rows; ++r) {
    const std::int64_t image = r / s.rows * s.c;
    const auto row = static_cast<std::int32_t>(r % s.rows);
    for (std::int64_t c = 0; c < s.c; ++c) dx[r * s.c + c] = index[image + c] == row ? dy[image + c] : 0.0F;
  }
}

}  // namespace neap::NEAP_ISA_NS
