// one_hot(indices; depth, axis, on, off): f32 with a new axis of `depth` elements (the last, or as `axis` says), `on`
// where the index stands. Negative indices count from the end; an index out of range has no `on` at all.
#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "ops/kernel.h"

namespace neap::ops {
namespace {

int axis_of(const OpCall& call) {
  const std::int64_t axis = call.attrs.integer("axis", -1);
  const int rank = call.shape(0).rank() + 1;
  if (axis < -rank || axis >= rank) throw UserError(fmt::format("there is no axis {}", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Types infer(const OpCall& call) {
  switch (call.in(0).dtype) {
    case DType::kI64:
    case DType::kI32:
    case DType::kU16:
    case DType::kU8: break;
    default: throw UserError(fmt::format("takes i64, i32, u16 or u8, not {}", name(call.in(0).dtype)));
  }
  const std::int64_t depth = call.attrs.integer("depth");
  if (depth < 1) throw UserError(fmt::format("depth must be positive, it is {}", depth));
  Shape out;
  for (int i = 0; i <= call.shape(0).rank(); ++i) {
    if (i == axis_of(call)) out.push_back(depth);
    if (i < call.shape(0).rank()) out.push_back(call.shape(0)[i]);
  }
  return {{DType::kF32, out}};
}

struct Layout {
  std::int64_t outer = 1, depth = 1, inner = 1;
  float on = 1, off = 0;

  explicit Layout(const OpCall& call)
      : depth(call.attrs.integer("depth")),
        on(static_cast<float>(call.attrs.real("on", 1))),
        off(static_cast<float>(call.attrs.real("off", 0))) {
    for (int i = 0; i < call.shape(0).rank(); ++i) (i < axis_of(call) ? outer : inner) *= call.shape(0).size(i);
  }
};

template <class T>
Prepared kernel(const OpCall& call) {
  return function_kernel([l = Layout(call)](const Buffers& b) {
    float* y = b.out<float>(0);
    std::fill_n(y, l.outer * l.depth * l.inner, l.off);
    for (std::int64_t i = 0; i < l.outer * l.inner; ++i) {
      std::int64_t index = b.in<T>(0)[i];
      if (index < 0) index += l.depth;
      if (index < 0 || index >= l.depth) continue;
      y[(i / l.inner * l.depth + index) * l.inner + i % l.inner] = l.on;
    }
  });
}

Prepared ref(const OpCall& call) {
  switch (call.in(0).dtype) {
    case DType::kI64: return kernel<std::int64_t>(call);
    case DType::kI32: return kernel<std::int32_t>(call);
    case DType::kU16: return kernel<std::uint16_t>(call);
    default: return kernel<std::uint8_t>(call);
  }
}

constexpr KernelEntry kKernels[] = {{"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef one_hot = {
    .name = "one_hot", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels), .cheap = true};

}  // namespace neap::ops
