// tile: the whole input "repeats"[a] times behind itself along each axis a.
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

Ints repeats_of(const Attrs& attrs, int rank) {
  Ints repeats = attrs.ints("repeats");
  if (static_cast<int>(repeats.size()) != rank) {
    throw UserError(fmt::format("repeats has {} numbers for {} axes", repeats.size(), rank));
  }
  for (const std::int64_t n : repeats) {
    if (n < 1) throw UserError(fmt::format("an axis cannot be repeated {} times", n));
  }
  return repeats;
}

Types infer(const OpCall& call) {
  Shape to = movable(call.in(0)).shape;
  const Ints repeats = repeats_of(call.attrs, to.rank());
  for (int a = 0; a < to.rank(); ++a) to[a] = to[a] * Dim(repeats[static_cast<std::size_t>(a)]);
  return {{call.in(0).dtype, std::move(to)}};
}

// Each axis becomes two: the repetitions, summed away, and the input's own.
Values gradient(GradientCall& c) {
  const Shape shape = known_shape(c.g.shape(c.x(0)), "the gradient of tile");
  const Ints repeats = repeats_of(c.node.attrs, shape.rank());
  Shape pairs;
  Shape kept;
  for (int a = 0; a < shape.rank(); ++a) {
    pairs.push_back(repeats[static_cast<std::size_t>(a)]);
    pairs.push_back(shape[a]);
    kept.push_back(1);
    kept.push_back(shape[a]);
  }
  const Value apart = c.g("reshape", {c.dy[0]}, {{"shape", pairs}});
  const Value sum = c.g("sum_to", {apart}, {{"shape", kept}});
  return {c.g("reshape", {sum}, {{"shape", shape}})};
}

CopyParts parts(const OpCall& call) {
  const Ints from = call.shape(0).sizes();
  const Ints strides = dense_strides(from);
  const Ints repeats = repeats_of(call.attrs, call.shape(0).rank());
  Ints sizes;
  Ints src;
  for (std::size_t a = 0; a < from.size(); ++a) {
    sizes.insert(sizes.end(), {repeats[a], from[a]});
    src.insert(src.end(), {0, strides[a]});
  }
  return {{.copy = copy_from(call.in(0), sizes, src)}};
}

Prepared cuda(const OpCall& call) { return copy_cuda != nullptr ? copy_cuda(parts(call)) : not_linked(); }
Prepared simd(const OpCall& call) { return copy_simd(parts(call)); }
Prepared ref(const OpCall& call) { return copy_ref(parts(call)); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef tile = {.name = "tile",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .kernels = kKernels,
                                     .kernel_count = std::size(kKernels),
                                     .flops = no_flops,
                                     .cheap = true};

}  // namespace neap::ops
