//   prune(weight; keep, of | share, axis = -1) -> the weight with zeros instead of what is pruned
//   prune_update(weight, mask u8[(elements + 7) / 8], key, hyper; keep, of | share, axis = -1, from)
// The second changes weight and mask behind the update of a step: in step `from` it settles the mask by the magnitudes
// of that moment; from then on it zeroes what the mask leaves out. `key` is the input kRandomInput, whose second number
// is the run that `from` means: the step, or of the parts of a batch the last. `hyper` is that of the update. No
// gradients.
#include "ops/prune/prune.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/prune/prune_kernels.h"
#include "ops/shape_util/axes.h"
#include "ops/update/update.h"

namespace neap::ops {

PruneRule PruneRule::from(const Attrs& attrs) {
  PruneRule out{.keep = attrs.integer("keep", 0), .of = attrs.integer("of", 0), .share = attrs.real("share", 0)};
  const bool is_pattern = out.of > 0 && out.keep > 0 && out.keep < out.of && out.of <= 64 && out.share == 0;
  const bool is_share = out.of == 0 && out.keep == 0 && out.share > 0 && out.share < 1;
  need(is_pattern || is_share, "keeps some of a few (keep, of), or prunes a share between 0 and 1");
  return out;
}

PruneShape PruneShape::of(const Shape& weight, std::int64_t axis) {
  PruneShape out;
  const int at = axis_of(axis, weight.rank());
  for (int i = 0; i < weight.rank(); ++i) (i < at ? out.outer : i == at ? out.in : out.inner) *= weight.size(i);
  return out;
}

std::int64_t kept_by_share(double share, std::int64_t elements) {
  return elements - static_cast<std::int64_t>(share * static_cast<double>(elements));
}

namespace {

// Orders by magnitude; one that is no number comes last.
std::uint32_t magnitude(float w) { return std::bit_cast<std::uint32_t>(w) & 0x7FFFFFFFU; }

void keep_bit(std::uint8_t* bits, std::int64_t i) { bits[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8)); }

// `step` between neighbours of the group.
void mask_group(const PruneRule& rule, const float* weight, std::int64_t at, std::int64_t step, std::uint8_t* bits) {
  std::uint64_t kept = 0;
  for (std::int64_t n = 0; n < rule.keep; ++n) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < rule.of; ++i) {
      if ((kept >> i & 1U) != 0) continue;
      if (best < 0 || magnitude(weight[at + i * step]) > magnitude(weight[at + best * step])) best = i;
    }
    kept |= std::uint64_t{1} << best;
    keep_bit(bits, at + best * step);
  }
}

// The largest magnitude so that at least `count` weights reach it, found bit by bit from the highest.
std::uint32_t threshold(const float* weight, std::int64_t elements, std::int64_t count) {
  std::uint32_t found = 0;
  for (std::uint32_t bit = 1U << 30; bit != 0; bit >>= 1) {
    const std::uint32_t tried = found | bit;
    std::int64_t reach = 0;
    for (std::int64_t i = 0; i < elements; ++i) reach += magnitude(weight[i]) >= tried ? 1 : 0;
    if (reach >= count) found = tried;
  }
  return found;
}

void mask_share(const PruneRule& rule, const float* weight, std::int64_t elements, std::uint8_t* bits) {
  const std::int64_t count = kept_by_share(rule.share, elements);
  const std::uint32_t least = threshold(weight, elements, count);
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < elements; ++i) above += magnitude(weight[i]) > least ? 1 : 0;
  std::int64_t equal = count - above;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint32_t m = magnitude(weight[i]);
    if (m > least || (m == least && equal-- > 0)) keep_bit(bits, i);
  }
}

}  // namespace

void find_mask(const PruneRule& rule, const PruneShape& s, const float* weight, std::uint8_t* bits) {
  std::fill_n(bits, (s.elements() + 7) / 8, std::uint8_t{0});
  if (rule.of == 0) return mask_share(rule, weight, s.elements(), bits);
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t i = 0; i < s.in; i += rule.of) {
      for (std::int64_t k = 0; k < s.inner; ++k) mask_group(rule, weight, (o * s.in + i) * s.inner + k, s.inner, bits);
    }
  }
}

void apply_mask(const std::uint8_t* bits, std::int64_t elements, float* weight) {
#pragma omp parallel for schedule(static)
  for (std::int64_t b = 0; b < (elements + 7) / 8; ++b) {
    for (std::int64_t i = 8 * b; i < std::min(8 * b + 8, elements); ++i) {
      if ((bits[b] >> (i - 8 * b) & 1U) == 0) weight[i] = 0;
    }
  }
}

namespace {

struct Call {
  PruneRule rule;
  PruneShape shape;
};

Call rule_of(const OpCall& call) {
  need_f32(call, 0);
  need(call.shape(0).is_static() && call.shape(0).rank() >= 1, "takes a weight of fixed size");
  const Call out{PruneRule::from(call.attrs), PruneShape::of(call.shape(0), call.attrs.integer("axis", -1))};
  need(out.rule.of == 0 || out.shape.in % out.rule.of == 0, "groups must divide the inputs");
  return out;
}

Types infer(const OpCall& call) {
  rule_of(call);
  return {call.in(0)};
}

Types infer_update(const OpCall& call) {
  const Call c = rule_of(call);
  need(call.in(1) == TensorType{DType::kU8, {(c.shape.elements() + 7) / 8}}, "the mask must have a bit a weight");
  need(call.in(2) == TensorType{DType::kU64, {3}}, "the key must be u64[3]");
  need(call.in(3) == TensorType{DType::kF32, {8}}, "hyper must be f32[8]");
  need(call.attrs.integer("from") >= 1, "from is a step");
  return {};
}

Prepared prune_cpu(const OpCall& call) {
  const Call c = rule_of(call);
  const auto run = [c](const Buffers& b) {
    auto* mask = reinterpret_cast<std::uint8_t*>(b.workspace);
    find_mask(c.rule, c.shape, b.in<float>(0), mask);
    if (b.out<float>(0) != b.in<float>(0)) std::copy_n(b.in<float>(0), c.shape.elements(), b.out<float>(0));
    apply_mask(mask, c.shape.elements(), b.out<float>(0));
  };
  return function_kernel(run, (c.shape.elements() + 7) / 8);
}

Prepared update_cpu(const OpCall& call) {
  const auto from = static_cast<std::uint64_t>(call.attrs.integer("from"));
  return function_kernel([c = rule_of(call), from](const Buffers& b) {
    const std::uint64_t step = b.in<std::uint64_t>(2)[1];
    if (is_put_off(b.in<float>(3)) || step < from) return;
    if (step == from) find_mask(c.rule, c.shape, b.in<float>(0), b.state<std::uint8_t>(1));
    apply_mask(b.in<std::uint8_t>(1), c.shape.elements(), b.state<float>(0));
  });
}

constexpr KernelEntry kPrune[] = {{"cuda", DeviceKind::kCuda, prune_cuda}, {"ref", DeviceKind::kCpu, prune_cpu}};
constexpr KernelEntry kUpdate[] = {{"cuda", DeviceKind::kCuda, prune_update_cuda},
                                   {"ref", DeviceKind::kCpu, update_cpu}};
constexpr std::uint8_t kMutates[] = {0, 1};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef prune = {
    .name = "prune", .infer = infer, .kernels = kPrune, .kernel_count = std::size(kPrune), .in_place = kInPlace};
extern constinit const OpDef prune_update = {.name = "prune_update",
                                             .infer = infer_update,
                                             .kernels = kUpdate,
                                             .kernel_count = std::size(kUpdate),
                                             .mutates = kMutates};

}  // namespace neap::ops
