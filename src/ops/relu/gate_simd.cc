#include "ops/relu/gate_simd.h"

#include "device/cpu/vmask.h"
#include "ops/elementwise/blocks.h"

namespace neap::NEAP_ISA_NS {
namespace {

// Elements are taken by sixteens, two bytes of mask, whatever the length of a vector.
constexpr int kGroup = 16;
static_assert(kGroup % kLanes == 0 && kBlock % kGroup == 0);

struct Gate {
  vf value;
  vi open;
};

template <auto F>
NEAP_VM unsigned group(const float* x, float* y, GateArgs args) {
  unsigned bits = 0;
#pragma GCC unroll 4
  for (int v = 0; v < kGroup; v += kLanes) {
    const Gate gate = F(vload(x + v), args);
    vstore(y + v, gate.value);
    bits |= to_bits(gate.open) << v;
  }
  return bits;
}

void store_bits(std::uint8_t* mask, unsigned bits, std::int64_t count) {
  mask[0] = static_cast<std::uint8_t>(bits);
  if (count > 8) mask[1] = static_cast<std::uint8_t>(bits >> 8);
}

template <auto F, bool kMask>
void forward_block(const float* x, float* y, std::uint8_t* mask, std::int64_t count, GateArgs args) {
  std::int64_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    const unsigned bits = group<F>(x + i, y + i, args);
    if constexpr (kMask) {
      const auto word = static_cast<std::uint16_t>(bits);
      __builtin_memcpy(mask + i / 8, &word, sizeof word);
    }
  }
  const std::int64_t rest = count - i;
  if (rest == 0) return;
  float in[kGroup] = {};
  float out[kGroup];
  for (std::int64_t k = 0; k < rest; ++k) in[k] = x[i + k];
  const unsigned bits = group<F>(in, out, args) & ((1U << rest) - 1U);
  for (std::int64_t k = 0; k < rest; ++k) y[i + k] = out[k];
  if constexpr (kMask) store_bits(mask + i / 8, bits, rest);
}

template <auto F>
void forward(const float* src, float* dst, std::uint8_t* mask, std::int64_t n, GateArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    if (mask != nullptr) {
      forward_block<F, true>(src + first, dst + first, mask + first / 8, count, args);
    } else {
      forward_block<F, false>(src + first, dst + first, nullptr, count, args);
    }
  });
}

// 0 where it is closed with slope 0, even if dy is infinite.
template <bool kFlat>
NEAP_VM void backward_group(const float* dy, unsigned bits, float* dx, GateArgs args) {
#pragma GCC unroll 4
  for (int v = 0; v < kGroup; v += kLanes) {
    const vf flow = vload(dy + v);
    const vf closed = kFlat ? vf{} : args.closed * flow;
    vstore(dx + v, to_lanes(bits >> v) ? args.open * flow : closed);
  }
}

template <bool kFlat>
void backward_block(const float* dy, const std::uint8_t* mask, float* dx, std::int64_t count, GateArgs args) {
  std::int64_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    std::uint16_t word;
    __builtin_memcpy(&word, mask + i / 8, sizeof word);
    backward_group<kFlat>(dy + i, word, dx + i, args);
  }
  const std::int64_t rest = count - i;
  if (rest == 0) return;
  const unsigned bits = mask[i / 8] | (rest > 8 ? static_cast<unsigned>(mask[i / 8 + 1]) << 8 : 0U);
  float in[kGroup] = {};
  float out[kGroup];
  for (std::int64_t k = 0; k < rest; ++k) in[k] = dy[i + k];
  backward_group<kFlat>(in, bits, out, args);
  for (std::int64_t k = 0; k < rest; ++k) dx[i + k] = out[k];
}

void backward(const float* diff_dst, const std::uint8_t* mask, float* diff_src, std::int64_t n, GateArgs args) {
  for_blocks(n, [=](std::int64_t first, std::int64_t count) {
    const auto run = args.closed == 0 ? backward_block<true> : backward_block<false>;
    run(diff_dst + first, mask + first / 8, diff_src + first, count, args);
  });
}

// NaN goes through all of them.
NEAP_VM Gate relu(vf x, GateArgs) {
  const vi shut = x <= 0.0F;
  return {shut ? vf{} : x, ~shut};
}
NEAP_VM Gate leaky_relu(vf x, GateArgs k) {
  const vi open = x > 0.0F;
  return {open ? x : k.closed * x, open};
}
NEAP_VM Gate thresholded_relu(vf x, GateArgs k) {
  const vi shut = x <= k.a;
  return {shut ? vf{} : x, ~shut};
}
NEAP_VM Gate clip(vf x, GateArgs k) { return {vmin(vset(k.b), vmax(vset(k.a), x)), (x >= k.a) & (x <= k.b)}; }
NEAP_VM Gate hard_sigmoid(vf x, GateArgs k) {
  const vf line = k.a * x + k.b;
  return {vmin(vset(1.0F), vmax(vset(0.0F), line)), (line > 0.0F) & (line < 1.0F)};
}

}  // namespace

const GateTable& gate_table() {
  static constexpr GateTable kTable = {
      {forward<relu>, forward<leaky_relu>, forward<thresholded_relu>, forward<clip>, forward<hard_sigmoid>}, backward};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
