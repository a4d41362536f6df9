#include "precision/codec_simd.h"

#include "precision/codec_format.h"
#include "precision/codec_lanes.h"

namespace neap::NEAP_ISA_NS {
namespace {

using precision::kFine;

// The same as in codec.h.
enum : unsigned { kNan = 1, kInfinite = 2, kOverflow = 4, kUnderflow = 8, kInexact = 16 };

enum class Form { kInt8, kInt4, kBit };
constexpr int steps(Form form) { return form == Form::kInt8 ? 255 : form == Form::kInt4 ? 15 : 1; }
// Of `n` elements, n a multiple of a run's pair.
constexpr std::int64_t bytes_of(Form form, std::int64_t n) {
  return form == Form::kInt8 ? n : form == Form::kInt4 ? n / 2 : n / 8;
}

// What is wrong with a group of which something is. `limit`: |x| as bits from which on a finite value overflows.
[[gnu::noinline]] unsigned classify(const float* x, std::uint32_t limit) {
  unsigned flags = 0;
  for (int i = 0; i < kGroup; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= 0x7FFFFFFFU;
    flags |= bits > 0x7F800000U ? kNan : bits == 0x7F800000U ? kInfinite : bits >= limit ? kOverflow : 0U;
  }
  return flags;
}

// ---- FP16 and BF16

struct Fp16 {
  static constexpr std::uint32_t kOver = precision::kFp16Overflow, kUnder = precision::kFp16Underflow;
  NEAP_VM static vh to(vf x) { return to_f16(x); }
  NEAP_VM static vf from(vh h) { return from_f16(h); }
};
struct Bf16 {
  static constexpr std::uint32_t kOver = precision::kBf16Overflow, kUnder = precision::kBf16Underflow;
  NEAP_VM static vh to(vf x) { return to_bf16(x); }
  NEAP_VM static vf from(vh h) { return from_bf16(h); }
};

template <class T>
NEAP_VM unsigned encode_half_group(const float* x, std::uint8_t* payload) {
  vi greatest[2] = {};
#pragma GCC unroll 2
  for (int i = 0; i < kGroup; i += kLanes) {
    const vf v = vload(x + i);
    vi& g = greatest[i / kLanes % 2];
    g = vmax_int(g, reinterpret_cast<vi>(as_bits(v) & 0x7FFFFFFFU));
    const vh h = T::to(v);
    __builtin_memcpy(payload + 2 * i, &h, sizeof h);
  }
  const vi all = vmax_int(greatest[0], greatest[1]);
  std::uint32_t most = 0;
  if (to_bits(all >= static_cast<std::int32_t>(T::kOver)) != 0) return classify(x, T::kOver);
  if (to_bits(all >= static_cast<std::int32_t>(T::kUnder)) != 0) return 0;
  for (int i = 0; i < kLanes; ++i) most |= static_cast<std::uint32_t>(all[i]);
  return most != 0 ? kUnderflow : 0U;
}

template <class T>
unsigned encode_half_tail(const float* x, std::int64_t n, std::uint8_t* payload) {
  float padded[kGroup];
  std::uint8_t halves[2 * kGroup];
  for (std::int64_t i = 0; i < kGroup; ++i) padded[i] = x[i < n ? i : 0];
  const unsigned flags = encode_half_group<T>(padded, halves);
  __builtin_memcpy(payload, halves, static_cast<std::size_t>(2 * n));
  return flags;
}

template <class T>
unsigned encode_half(const float* src, std::int64_t n, std::uint8_t* payload) {
  return for_group_blocks(n, [=](std::int64_t first, std::int64_t count) {
    unsigned flags = 0;
    std::int64_t i = first;
    for (; i + kGroup <= first + count; i += kGroup) flags |= encode_half_group<T>(src + i, payload + 2 * i);
    if (i < first + count) flags |= encode_half_tail<T>(src + i, first + count - i, payload + 2 * i);
    return flags;
  });
}

template <class T>
void decode_half(const std::uint8_t* payload, const std::uint8_t*, std::int64_t n, float* dst) {
  for_group_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const std::int64_t end = first + count;
    std::int64_t i = first;
    for (; i + kLanes <= end; i += kLanes) vstore(dst + i, T::from(vload_as<vh>(payload + 2 * i)));
    if (i < end) {
      vh h{};
      __builtin_memcpy(&h, payload + 2 * i, static_cast<std::size_t>(2 * (end - i)));
      vstore_n(dst + i, T::from(h), end - i);
    }
    return 0U;
  });
}

// ---- INT8, INT4, one bit

struct Grid {
  float lo, second;  // as in the history: scale, or the greatest value for one bit
  float hi;
  float factor;  // fine steps per unit
  unsigned flags;
};

template <Form kForm>
NEAP_VM Grid make_grid(const float* x) {
  vf lo[2] = {vload(x), vload(x + kLanes)};
  vf hi[2] = {lo[0], lo[1]};
  Lanes nan = unordered(lo[0], lo[1]);
#pragma GCC unroll 4
  for (int i = 2 * kLanes; i < kGroup; i += 2 * kLanes) {
    const vf a = vload(x + i), b = vload(x + i + kLanes);
    lo[0] = vmin(a, lo[0]);
    lo[1] = vmin(b, lo[1]);
    hi[0] = vmax(a, hi[0]);
    hi[1] = vmax(b, hi[1]);
    nan = either(nan, unordered(a, b));
  }
  const float least = vmin_lanes(vmin(lo[0], lo[1])) + 0.0F;  // -0 becomes 0
  const float greatest = vmax_lanes(vmax(hi[0], hi[1])) + 0.0F;
  const float range = greatest - least;
  if (any(nan) || !(range <= precision::kMaxRange)) {
    const unsigned why = classify(x, 0x7F800000U);
    return {0, 0, 0, 0, why != 0 ? why : kOverflow};
  }
  if (range == 0) return {least, kForm == Form::kBit ? greatest : 0.0F, greatest, 0, 0};
  const float exact = range / static_cast<float>(steps(kForm));
  const float scale = exact < precision::kMinScale ? precision::kMinScale : exact;
  return {least, kForm == Form::kBit ? greatest : scale, greatest, kFine / scale,
          exact < precision::kMinScale ? kUnderflow : 0U};
}

// The steps of one vector; `add` in fine steps.
template <Form kForm>
NEAP_VM vi quantize(vf x, const Grid& grid, vi add) {
  constexpr float kTop = static_cast<float>(steps(kForm)) * kFine;
  const vi place = vnearest(vmin((x - grid.lo) * grid.factor, vset(kTop)));
  return (place + add) >> 16;
}

// Byte `k` of each word above the bits that the group shares.
NEAP_VM vi random_bits(vu word, int k, vu common) {
  const vu own = k == 0 ? word << 8 : word >> (8 * k - 8);
  return reinterpret_cast<vi>((own & 0xFF00U) | common);
}

template <Form kForm, bool kStochastic>
NEAP_VM unsigned encode_group(const float* x, std::uint64_t key, std::int64_t group, std::uint32_t common,
                              std::uint8_t* payload, std::uint8_t* history) {
  const Grid grid = make_grid<kForm>(x);
  __builtin_memcpy(history, &grid.lo, 4);
  __builtin_memcpy(history + 4, &grid.second, 4);
  std::uint16_t bits[kGroup / kRun] = {};
  Lanes other{};
  for (int lane = 0; lane < kRun; lane += kLanes) {
    RandomWords words{};
    if (kStochastic) words = vphilox(key, static_cast<std::uint64_t>(group * kRun + lane), precision::kOwnStream);
#pragma GCC unroll 16
    for (int run = 0; run < kGroup / kRun; run += 2) {
      const vu word = words.word[run / 4];
      const vi add0 = kStochastic ? random_bits(word, run % 4, vset(common)) : vset(32768);
      const vi add1 = kStochastic ? random_bits(word, run % 4 + 1, vset(common)) : vset(32768);
      const vf x0 = vload(x + run * kRun + lane);
      const vf x1 = vload(x + run * kRun + kRun + lane);
      const vi q0 = quantize<kForm>(x0, grid, add0);
      const vi q1 = quantize<kForm>(x1, grid, add1);
      if constexpr (kForm == Form::kInt8) {
        store_bytes(payload + run * kRun + lane, q0);
        store_bytes(payload + run * kRun + kRun + lane, q1);
      } else if constexpr (kForm == Form::kInt4) {
        store_bytes(payload + run / 2 * kRun + lane, q0 | (q1 << 4));
      } else {
        bits[run] = static_cast<std::uint16_t>(bits[run] | (to_bits(q0 != 0) << lane));
        bits[run + 1] = static_cast<std::uint16_t>(bits[run + 1] | (to_bits(q1 != 0) << lane));
        const vf lo = vset(grid.lo), hi = vset(grid.hi);
        other = either(other, either(differs(x0, lo, hi), differs(x1, lo, hi)));
      }
    }
  }
  if constexpr (kForm == Form::kBit) __builtin_memcpy(payload, bits, sizeof bits);
  return grid.flags | (kForm == Form::kBit && any(other) ? kInexact : 0U);
}

// Philox for one counter, as neap::Philox.
struct Block {
  std::uint32_t word[4];
};
[[gnu::noinline]] Block philox(std::uint64_t key, std::uint64_t index, std::uint64_t stream) {
  const RandomWords words = vphilox(key, index, stream);
  return {{words.word[0][0], words.word[1][0], words.word[2][0], words.word[3][0]}};
}

// A group of n < kGroup elements: padded by its first value, what lies beyond n cut off again.
template <Form kForm, bool kStochastic>
unsigned encode_tail(const float* x, std::int64_t n, std::uint64_t key, std::int64_t group, std::uint32_t common,
                     std::uint8_t* payload, std::uint8_t* history) {
  float padded[kGroup];
  std::uint8_t coded[kGroup];
  for (std::int64_t i = 0; i < kGroup; ++i) padded[i] = x[i < n ? i : 0];
  const unsigned flags = encode_group<kForm, kStochastic>(padded, key, group, common, coded, history);
  for (std::int64_t i = n; kForm == Form::kInt4 && i < kGroup; ++i) {
    coded[i / 32 * 16 + i % 16] &= i / 16 % 2 == 0 ? 0xF0U : 0x0FU;
  }
  if (kForm == Form::kBit && n % 8 != 0) coded[n / 8] &= static_cast<std::uint8_t>((1U << (n % 8)) - 1U);
  const std::int64_t unit = kForm == Form::kInt8 ? 1 : kForm == Form::kInt4 ? 32 : 8;
  __builtin_memcpy(payload, coded, static_cast<std::size_t>(bytes_of(kForm, (n + unit - 1) / unit * unit)));
  return flags;
}

template <Form kForm, bool kStochastic>
unsigned encode(const float* src, std::int64_t n, std::uint64_t key, std::uint8_t* payload, std::uint8_t* history) {
  return for_group_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const std::uint64_t block = static_cast<std::uint64_t>(first / kBlock);
    const Block shared = kStochastic ? philox(key, block, precision::kSharedStream) : Block{};
    unsigned flags = 0;
    for (std::int64_t done = 0; done < count; done += kGroup) {
      const std::int64_t i = first + done;
      const std::int64_t group = i / kGroup;
      const std::uint32_t common = (shared.word[group % 16 / 4] >> (group % 4 * 8)) & 0xFFU;
      std::uint8_t* at = payload + bytes_of(kForm, i);
      flags |=
          done + kGroup <= count
              ? encode_group<kForm, kStochastic>(src + i, key, group, common, at, history + group * 8)
              : encode_tail<kForm, kStochastic>(src + i, count - done, key, group, common, at, history + group * 8);
    }
    return flags;
  });
}

template <Form kForm>
NEAP_VM void decode_group(const std::uint8_t* payload, float lo, float second, float* y) {
#pragma GCC unroll 4
  for (int i = 0; i < kGroup; i += 2 * kRun) {
#pragma GCC unroll 4
    for (int lane = 0; lane < kRun; lane += kLanes) {
      vf y0, y1;
      if constexpr (kForm == Form::kBit) {
        std::uint32_t bits;
        __builtin_memcpy(&bits, payload + i / 8, 4);
        y0 = to_lanes(bits >> lane) ? vset(second) : vset(lo);
        y1 = to_lanes(bits >> (lane + kRun)) ? vset(second) : vset(lo);
      } else {
        const vi byte = load_bytes(payload + bytes_of(kForm, i) + lane);
        const vi q0 = kForm == Form::kInt4 ? byte & 15 : byte;
        const vi q1 = kForm == Form::kInt4 ? byte >> 4 : load_bytes(payload + i + kRun + lane);
        y0 = lo + to_float(q0) * second;
        y1 = lo + to_float(q1) * second;
      }
      vstore(y + i + lane, y0);
      vstore(y + i + kRun + lane, y1);
    }
  }
}

template <Form kForm>
void decode_tail(const std::uint8_t* payload, float lo, float second, std::int64_t n, float* y) {
  std::uint8_t coded[kGroup] = {};
  float all[kGroup];
  const std::int64_t unit = kForm == Form::kInt8 ? 1 : kForm == Form::kInt4 ? 32 : 8;
  __builtin_memcpy(coded, payload, static_cast<std::size_t>(bytes_of(kForm, (n + unit - 1) / unit * unit)));
  decode_group<kForm>(coded, lo, second, all);
  __builtin_memcpy(y, all, static_cast<std::size_t>(4 * n));
}

template <Form kForm>
void decode(const std::uint8_t* payload, const std::uint8_t* history, std::int64_t n, float* dst) {
  for_group_blocks(n, [=](std::int64_t first, std::int64_t count) {
    for (std::int64_t done = 0; done < count; done += kGroup) {
      const std::int64_t i = first + done;
      float p[2];
      __builtin_memcpy(p, history + i / kGroup * 8, 8);
      if (done + kGroup <= count) {
        decode_group<kForm>(payload + bytes_of(kForm, i), p[0], p[1], dst + i);
      } else {
        decode_tail<kForm>(payload + bytes_of(kForm, i), p[0], p[1], count - done, dst + i);
      }
    }
    return 0U;
  });
}

}  // namespace

const CodecTable& codec_table() {
  static constexpr CodecTable kTable = {
      encode_half<Fp16>,
      encode_half<Bf16>,
      {encode<Form::kInt8, true>, encode<Form::kInt4, true>, encode<Form::kBit, true>},
      {encode<Form::kInt8, false>, encode<Form::kInt4, false>, encode<Form::kBit, false>},
      {nullptr, decode_half<Fp16>, decode_half<Bf16>, decode<Form::kInt8>, decode<Form::kInt4>, decode<Form::kBit>}};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
