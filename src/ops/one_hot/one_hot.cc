// one_hot(indices; depth, axis = -1, on = 1, off = 0, dtype = f32): a new axis of `depth` elements (the last, or as
// `axis` says), `on` where the index stands, else `off`, of any type but bits. Indices are numbers of any type;
// negative ones count from the end, and an index out of range has no `on` at all.
#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/shape_util/lines_cuda.h"

namespace neap::ops {
namespace {

int axis_of(const OpCall& call) {
  const std::int64_t axis = call.attrs.integer("axis", -1);
  const int rank = call.shape(0).rank() + 1;
  if (axis < -rank || axis >= rank) throw UserError(fmt::format("there is no axis {}", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Types infer(const OpCall& call) {
  if (!is_number(call.in(0).dtype)) throw UserError(fmt::format("takes numbers, not {}", name(call.in(0).dtype)));
  const std::string to = call.attrs.text("dtype", "f32");
  const auto type = parse_dtype(to);
  if (!type || *type == DType::kBits) throw UserError(fmt::format("cannot make the type \"{}\"", to));
  const std::int64_t depth = call.attrs.integer("depth");
  if (depth < 1) throw UserError(fmt::format("depth must be positive, it is {}", depth));
  Shape out;
  for (int i = 0; i <= call.shape(0).rank(); ++i) {
    if (i == axis_of(call)) out.push_back(depth);
    if (i < call.shape(0).rank()) out.push_back(call.shape(0)[i]);
  }
  return {{*type, out}};
}

struct Layout {
  std::int64_t outer = 1, depth = 1, inner = 1;
  double on = 1, off = 0;

  explicit Layout(const OpCall& call)
      : depth(call.attrs.integer("depth")), on(call.attrs.real("on", 1)), off(call.attrs.real("off", 0)) {
    for (int i = 0; i < call.shape(0).rank(); ++i) (i < axis_of(call) ? outer : inner) *= call.shape(0).size(i);
  }
};

Prepared cuda(const OpCall& call) {
  const DType index = call.in(0).dtype;
  const bool fits = call.outputs[0].dtype == DType::kF32 && (index == DType::kI32 || index == DType::kI64);
  if (!fits) return Declined{"integers of 32 or 64 bits to f32 only"};
  const Layout l(call);
  return one_hot_cuda != nullptr ? one_hot_cuda({l.outer, l.depth, l.inner}, index == DType::kI64,
                                                static_cast<float>(l.on), static_cast<float>(l.off))
                                 : not_linked();
}

template <class T>
void write(const Layout& l, DType type, const std::byte* indices, T* y) {
  std::fill_n(y, l.outer * l.depth * l.inner, element_of<T>(l.off));
  for (std::int64_t i = 0; i < l.outer * l.inner; ++i) {
    std::int64_t index = integer_at(type, indices, i);
    if (index < 0) index += l.depth;
    if (index < 0 || index >= l.depth) continue;
    y[(i / l.inner * l.depth + index) * l.inner + i % l.inner] = element_of<T>(l.on);
  }
}

Prepared ref(const OpCall& call) {
  return with_type(call.outputs[0].dtype, [&]<class T>(Type<T>) {
    return function_kernel([l = Layout(call), type = call.in(0).dtype](const Buffers& b) {
      write(l, type, b.in<std::byte>(0), b.out<T>(0));
    });
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef one_hot = {
    .name = "one_hot", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels), .cheap = true};

}  // namespace neap::ops
