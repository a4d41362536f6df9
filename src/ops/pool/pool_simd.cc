#include "ops/pool/pool_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

typedef std::uint8_t vb __attribute__((vector_size(kLanes)));

// The compiler's own conversions go through several narrower steps.
NEAP_VM vi widen(vb narrow) {
#if defined(__AVX512F__)
  return reinterpret_cast<vi>(_mm512_maskz_cvtepu8_epi32(kAllLanes, reinterpret_cast<__m128i>(narrow)));
#elif defined(__AVX2__)
  return reinterpret_cast<vi>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(reinterpret_cast<long long>(narrow))));
#else
  return __builtin_convertvector(narrow, vi);
#endif
}

NEAP_VM vb narrow(vi wide) {
#if defined(__AVX512F__)
  return reinterpret_cast<vb>(_mm512_maskz_cvtepi32_epi8(kAllLanes, reinterpret_cast<__m512i>(wide)));
#else
  return __builtin_convertvector(wide, vb);
#endif
}

NEAP_VM void store_index(std::uint8_t* p, vi index, std::int64_t n) {
  const vb bytes = narrow(index);
  if (n == kLanes) {
    __builtin_memcpy(p, &bytes, sizeof bytes);
  } else {
    for (std::int64_t i = 0; i < n; ++i) p[i] = bytes[i];
  }
}

NEAP_VM void store_index(std::int32_t* p, vi index, std::int64_t n) {
  if (n == kLanes) {
    vstore(p, index);
  } else {
    for (std::int64_t i = 0; i < n; ++i) p[i] = index[i];
  }
}

NEAP_VM vi load_index(const std::uint8_t* p, std::int64_t n) {
  vb bytes{};
  if (n == kLanes) {
    __builtin_memcpy(&bytes, p, sizeof bytes);
  } else {
    for (std::int64_t i = 0; i < n; ++i) bytes[i] = p[i];
  }
  return widen(bytes);
}

NEAP_VM vi load_index(const std::int32_t* p, std::int64_t n) {
  if (n == kLanes) return vload(p);
  vi index{};
  for (std::int64_t i = 0; i < n; ++i) index[i] = p[i];
  return index;
}

// The lanes of channel c that exist.
NEAP_VM std::int64_t lanes_at(std::int64_t c, std::int64_t channels) {
  return channels - c < kLanes ? channels - c : kLanes;
}

NEAP_VM vf load(const float* p, std::int64_t n) { return n == kLanes ? vload(p) : vload_n(p, n); }
NEAP_VM void store(float* p, vf v, std::int64_t n) {
  if (n == kLanes) {
    vstore(p, v);
  } else {
    vstore_n(p, v, n);
  }
}

// One output position: the largest of its taps. A NaN is larger than everything.
template <class Index>
void max_position(const PoolShape& s, const float* image, std::int64_t oh, std::int64_t ow, float* y, Index* index) {
  const std::int64_t pixel = s.h.dilation * s.w.size * s.c;
  for (std::int64_t c = 0; c < s.c; c += kLanes) {
    const std::int64_t n = lanes_at(c, s.c);
    vf best = vset(-__builtin_inff());
    vi tap{};
    bool is_first = true;
    for (std::int64_t kh = s.h.first[oh]; kh < s.h.last[oh]; ++kh) {
      const float* row = image + s.h.start[oh] * s.w.size * s.c + kh * pixel;
      for (std::int64_t kw = s.w.first[ow]; kw < s.w.last[ow]; ++kw) {
        const vf v = load(row + (s.w.start[ow] + kw * s.w.dilation) * s.c + c, n);
        const vi here = vset(static_cast<std::int32_t>(kh * s.w.kernel + kw));
        const vi larger = is_first ? vset(-1) : (v > best) | (v != v);
        best = larger ? v : best;
        tap = larger ? here : tap;
        is_first = false;
      }
    }
    store(y + c, best, n);
    if (index != nullptr) store_index(index + c, tap, n);
  }
}

template <class Index>
void max_rows(const PoolShape& s, const float* x, float* y, Index* index) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.h.positions; ++r) {
    const float* image = x + r / s.h.positions * s.h.size * s.w.size * s.c;
    for (std::int64_t ow = 0; ow < s.w.positions; ++ow) {
      const std::int64_t at = (r * s.w.positions + ow) * s.c;
      max_position<Index>(s, image, r % s.h.positions, ow, y + at, index != nullptr ? index + at : nullptr);
    }
  }
}

void max(const PoolShape& s, const float* x, float* y, void* index, bool wide) {
  if (wide) {
    max_rows(s, x, y, static_cast<std::int32_t*>(index));
  } else {
    max_rows(s, x, y, static_cast<std::uint8_t*>(index));
  }
}

// The windows that look at one input position, a handful at a time.
struct Sources {
  static constexpr int kMost = 16;
  int count = 0;
  std::int64_t at[kMost];   // the window's first element in y
  std::int32_t tap[kMost];  // which of its taps looks here
  float share[kMost];       // what an average gives it of the window
};

// Calls f(sources, is_first) for all windows that look at (ih, iw), in the order of the taps; at least once.
template <class F>
NEAP_VM void each_source(const PoolShape& s, std::int64_t ih, std::int64_t iw, F f) {
  Sources found;
  bool is_first = true;
  for (std::int32_t i = s.h.begin[ih]; i < s.h.begin[ih + 1]; ++i) {
    for (std::int32_t j = s.w.begin[iw]; j < s.w.begin[iw + 1]; ++j) {
      if (found.count == Sources::kMost) {
        f(found, is_first);
        is_first = false;
        found.count = 0;
      }
      const std::int64_t oh = s.h.position[i];
      const std::int64_t ow = s.w.position[j];
      found.at[found.count] = (oh * s.w.positions + ow) * s.c;
      found.tap[found.count] = static_cast<std::int32_t>(s.h.tap[i] * s.w.kernel + s.w.tap[j]);
      found.share[found.count] = 1.0F / (s.h.count[oh] * s.w.count[ow]);
      ++found.count;
    }
  }
  f(found, is_first);
}

// One input position: the sum over the windows that chose it.
template <class Index>
NEAP_VM void max_grad_position(const PoolShape& s, const float* dy, const Index* index, std::int64_t ih,
                               std::int64_t iw, float* dx) {
  each_source(s, ih, iw, [&](const Sources& from, bool is_first) {
    for (std::int64_t c = 0; c < s.c; c += kLanes) {
      const std::int64_t n = lanes_at(c, s.c);
      vf sum = is_first ? vf{} : load(dx + c, n);
      for (int k = 0; k < from.count; ++k) {
        const vi is_chosen = load_index(index + from.at[k] + c, n) == from.tap[k];
        sum += is_chosen ? load(dy + from.at[k] + c, n) : vf{};
      }
      store(dx + c, sum, n);
    }
  });
}

template <class Index>
void max_grad_rows(const PoolShape& s, const float* dy, const Index* index, float* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.h.size; ++r) {
    const std::int64_t image = r / s.h.size * s.h.positions * s.w.positions * s.c;
    for (std::int64_t iw = 0; iw < s.w.size; ++iw) {
      max_grad_position(s, dy + image, index + image, r % s.h.size, iw, dx + (r * s.w.size + iw) * s.c);
    }
  }
}

void max_grad(const PoolShape& s, const float* dy, const void* index, bool wide, float* dx) {
  if (wide) {
    max_grad_rows(s, dy, static_cast<const std::int32_t*>(index), dx);
  } else {
    max_grad_rows(s, dy, static_cast<const std::uint8_t*>(index), dx);
  }
}

void average_position(const PoolShape& s, const float* image, std::int64_t oh, std::int64_t ow, float* y) {
  const std::int64_t pixel = s.h.dilation * s.w.size * s.c;
  const float count = s.h.count[oh] * s.w.count[ow];
  for (std::int64_t c = 0; c < s.c; c += kLanes) {
    const std::int64_t n = lanes_at(c, s.c);
    vf sum{};
    for (std::int64_t kh = s.h.first[oh]; kh < s.h.last[oh]; ++kh) {
      const float* row = image + s.h.start[oh] * s.w.size * s.c + kh * pixel;
      vf part{};
      for (std::int64_t kw = s.w.first[ow]; kw < s.w.last[ow]; ++kw) {
        part += load(row + (s.w.start[ow] + kw * s.w.dilation) * s.c + c, n);
      }
      sum += part;
    }
    store(y + c, sum / count, n);
  }
}

void average(const PoolShape& s, const float* x, float* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.h.positions; ++r) {
    const float* image = x + r / s.h.positions * s.h.size * s.w.size * s.c;
    for (std::int64_t ow = 0; ow < s.w.positions; ++ow) {
      average_position(s, image, r % s.h.positions, ow, y + (r * s.w.positions + ow) * s.c);
    }
  }
}

NEAP_VM void average_grad_position(const PoolShape& s, const float* dy, std::int64_t ih, std::int64_t iw, float* dx) {
  each_source(s, ih, iw, [&](const Sources& from, bool is_first) {
    for (std::int64_t c = 0; c < s.c; c += kLanes) {
      const std::int64_t n = lanes_at(c, s.c);
      vf sum = is_first ? vf{} : load(dx + c, n);
      for (int k = 0; k < from.count; ++k) sum = vfma(load(dy + from.at[k] + c, n), vset(from.share[k]), sum);
      store(dx + c, sum, n);
    }
  });
}

void average_grad(const PoolShape& s, const float* dy, float* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < s.n * s.h.size; ++r) {
    const float* image = dy + r / s.h.size * s.h.positions * s.w.positions * s.c;
    for (std::int64_t iw = 0; iw < s.w.size; ++iw) {
      average_grad_position(s, image, r % s.h.size, iw, dx + (r * s.w.size + iw) * s.c);
    }
  }
}

}  // namespace

void global_average(GlobalShape s, const float* x, float* y);
void global_average_grad(GlobalShape s, const float* dy, float* dx);
void global_max(GlobalShape s, const float* x, float* y, std::int32_t* index);
void global_max_grad(GlobalShape s, const float* dy, const std::int32_t* index, float* dx);

const PoolTable& pool_table() {
  static constexpr PoolTable kTable = {
      max, max_grad, average, average_grad, global_average, global_average_grad, global_max, global_max_grad};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
