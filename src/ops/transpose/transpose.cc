// transpose: axis i of the output is axis perm[i] of the input; without perm the axes are reversed.
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

Ints perm_of(const Attrs& attrs, int rank) {
  Ints reversed;
  for (int i = rank; i-- > 0;) reversed.push_back(i);
  Ints perm = axes_of(attrs.ints("perm", reversed), rank);
  if (static_cast<int>(perm.size()) != rank) {
    throw UserError(fmt::format("perm names {} of {} axes", perm.size(), rank));
  }
  return perm;
}

Types infer(const OpCall& call) {
  const Shape& from = movable(call.in(0)).shape;
  Shape to;
  for (const std::int64_t axis : perm_of(call.attrs, from.rank())) to.push_back(from[static_cast<int>(axis)]);
  return {{call.in(0).dtype, std::move(to)}};
}

Values gradient(GradientCall& c) {
  const Ints perm = perm_of(c.node.attrs, c.g.shape(c.x(0)).rank());
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {c.g("transpose", {c.dy[0]}, {{"perm", inverse}})};
}

CopyParts parts(const OpCall& call) {
  const Ints from = call.shape(0).sizes();
  const Ints strides = dense_strides(from);
  Ints sizes;
  Ints src;
  for (const std::int64_t axis : perm_of(call.attrs, call.shape(0).rank())) {
    sizes.push_back(from[static_cast<std::size_t>(axis)]);
    src.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  return {{.copy = copy_from(call.in(0), sizes, src)}};
}

// Where only axes of length 1 change their place.
std::optional<std::int64_t> view(const OpCall& call) {
  if (!call.shape(0).is_static()) return std::nullopt;
  const Ints perm = perm_of(call.attrs, call.shape(0).rank());
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (call.shape(0)[static_cast<int>(axis)] == Dim(1)) continue;
    if (axis < last) return std::nullopt;
    last = axis;
  }
  return 0;
}

Prepared cuda(const OpCall& call) { return copy_cuda != nullptr ? copy_cuda(parts(call)) : not_linked(); }
Prepared simd(const OpCall& call) { return copy_simd(parts(call)); }
Prepared ref(const OpCall& call) { return copy_ref(parts(call)); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef transpose = {.name = "transpose",
                                          .infer = infer,
                                          .gradient = gradient,
                                          .kernels = kKernels,
                                          .kernel_count = std::size(kKernels),
                                          .flops = no_flops,
                                          .view_offset = view,
                                          .cheap = true};

}  // namespace neap::ops
