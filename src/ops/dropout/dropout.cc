// dropout(x, rng; p, key, first = 0): each element is 0 with probability p, else x / (1 - p). The numbers are a
// function of (seed, step, key, index in the whole batch, of which `first` elements come before x), so backward draws
// them again instead of keeping a mask.
#include "ops/dropout/dropout.h"

#include <fmt/format.h>

#include "core/random.h"
#include "neap/error.h"
#include "ops/dropout/dropout_simd.h"

namespace neap::ops {
namespace {

double probability(const Attrs& attrs) {
  const double p = attrs.real("p", 0.5);
  if (!(p >= 0 && p <= 1)) throw UserError(fmt::format("p must lie in [0, 1], it is {}", p));
  return p;
}

Types infer(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) throw UserError(fmt::format("takes f32, not {}", name(call.in(0).dtype)));
  if (!(call.in(1) == TensorType{DType::kU64, {3}})) {
    throw UserError("the second input must be u64[3]: seed, step, index of the first element");
  }
  probability(call.attrs);
  call.attrs.integer("key");
  return {call.in(0)};
}

// Linear in x: the same elements of dy are dropped, the others scaled alike.
Values gradient(GradientCall& c) { return {c.g("dropout", {c.dy[0], c.x(1)}, c.node.attrs), Value{}}; }

DropoutArgs args_of(const DropoutDraw& d, const std::uint64_t* rng) {
  return {.key = mix(mix(rng[0], d.key), rng[1]), .index = rng[2] + d.first, .p = d.p, .scale = d.scale};
}

Prepared simd(const OpCall& call) {
  return function_kernel([d = DropoutDraw(call)](const Buffers& b) {
    dropout_table().run(b.in<float>(0), b.out<float>(0), d.n, args_of(d, b.in<std::uint64_t>(1)));
  });
}

Prepared ref(const OpCall& call) {
  return function_kernel([d = DropoutDraw(call)](const Buffers& b) {
    const DropoutArgs args = args_of(d, b.in<std::uint64_t>(1));
    for (std::int64_t i = 0; i < d.n; ++i) {
      const std::uint64_t index = args.index + static_cast<std::uint64_t>(i);
      const float unit = unit_float(Philox{args.key}(index / 4)[index % 4]);
      b.out<float>(0)[i] = unit < args.p ? 0 : b.in<float>(0)[i] * args.scale;
    }
  });
}

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, dropout_cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

DropoutDraw::DropoutDraw(const OpCall& call)
    : key(static_cast<std::uint64_t>(call.attrs.integer("key"))),
      p(static_cast<float>(probability(call.attrs))),
      scale(p < 1 ? static_cast<float>(1 / (1 - probability(call.attrs))) : 0),
      n(call.in(0).elements()),
      first(static_cast<std::uint64_t>(call.attrs.integer("first", 0))) {}

extern constinit const OpDef dropout = {.name = "dropout",
                                        .infer = infer,
                                        .gradient = gradient,
                                        .kernels = kKernels,
                                        .kernel_count = std::size(kKernels),
                                        .in_place = kInPlace,
                                        .cheap = true,
                                        .elementwise = true,
                                        .random = true};

}  // namespace neap::ops
