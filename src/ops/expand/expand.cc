// expand: repeats along axes of length 1, by numpy's broadcasting rule. -1 in "shape" keeps the input's axis.
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const Shape& from = movable(call.in(0)).shape;
  Shape to = call.attrs.shape("shape");
  for (int i = 1; i <= to.rank(); ++i) {
    if (to[-i] == Dim(-1)) to[-i] = i <= from.rank() ? from[-i] : Dim(1);
    if (to[-i].factor() < 0) throw UserError(fmt::format("shape {} has a negative axis", to.text()));
  }
  return {{call.in(0).dtype, broadcast(from, to)}};
}

Values gradient(GradientCall& c) {
  return {c.g("sum_to", {c.dy[0]}, {{"shape", known_shape(c.g.shape(c.x(0)), "the gradient of expand")}})};
}

CopyParts parts(const OpCall& call) {
  const Ints sizes = call.outputs[0].shape.sizes();
  const Ints from = call.shape(0).sizes();
  const Ints strides = dense_strides(from);
  const std::size_t added = sizes.size() - from.size();
  Ints src(sizes.size(), 0);
  for (std::size_t a = 0; a < from.size(); ++a) src[a + added] = from[a] == 1 ? 0 : strides[a];
  return {{.copy = copy_from(call.in(0), sizes, src)}};
}

std::optional<std::int64_t> view(const OpCall& call) {
  if (!call.shape(0).is_static() || call.outputs.empty() || !call.outputs[0].shape.is_static()) return std::nullopt;
  return call.in(0).elements() == call.outputs[0].elements() ? std::optional<std::int64_t>(0) : std::nullopt;
}

Prepared cuda(const OpCall& call) { return copy_cuda != nullptr ? copy_cuda(parts(call)) : not_linked(); }
Prepared simd(const OpCall& call) { return copy_simd(parts(call)); }
Prepared ref(const OpCall& call) { return copy_ref(parts(call)); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef expand = {.name = "expand",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .flops = no_flops,
                                       .view_offset = view,
                                       .cheap = true};

}  // namespace neap::ops
