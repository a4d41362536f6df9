// cumsum(x; axis = 0, exclusive = 0, reverse = 0): sums along an axis so far; floats are accumulated in double,
// integers wrap around.
#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/shape_util/lines_cuda.h"

namespace neap::ops {
namespace {

int axis_of(const OpCall& call) {
  const std::int64_t axis = call.attrs.integer("axis", 0);
  const int rank = call.shape(0).rank();
  if (axis < -rank || axis >= rank) throw UserError(fmt::format("there is no axis {}", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Types infer(const OpCall& call) {
  if (!is_number(call.in(0).dtype)) throw UserError(fmt::format("takes numbers, not {}", name(call.in(0).dtype)));
  axis_of(call);
  return {call.in(0)};
}

// Each dy reaches the elements that were summed: those on the other side.
Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("reverse", attrs.integer("reverse", 0) == 0 ? 1 : 0);
  return {c.g("cumsum", {c.dy[0]}, attrs)};
}

// The tensor as outer x length x inner.
struct Line {
  std::int64_t outer = 1, length = 1, inner = 1;
  bool exclusive = false, reverse = false;

  explicit Line(const OpCall& call) {
    const int axis = axis_of(call);
    for (int i = 0; i < call.shape(0).rank(); ++i) {
      (i < axis ? outer : i == axis ? length : inner) *= call.shape(0).size(i);
    }
    exclusive = call.attrs.integer("exclusive", 0) != 0;
    reverse = call.attrs.integer("reverse", 0) != 0;
  }
};

Prepared cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  const Line l(call);
  return cumsum_cuda != nullptr ? cumsum_cuda({l.outer, l.length, l.inner}, l.exclusive, l.reverse) : not_linked();
}

template <class T>
void sum_columns(const Line& l, const T* x, T* y, std::int64_t width) {
  using Sum = std::conditional_t<kIsInteger<T>, std::uint64_t, double>;
  constexpr std::int64_t kColumns = 128;
  for (std::int64_t c = 0; c < width; c += kColumns) {
    const std::int64_t n = std::min(kColumns, width - c);
    Sum sum[kColumns] = {};
    for (std::int64_t t = 0; t < l.length; ++t) {
      const std::int64_t at = (l.reverse ? l.length - 1 - t : t) * l.inner + c;
      for (std::int64_t i = 0; i < n; ++i) {
        const Sum next = sum[i] + static_cast<Sum>(x[at + i]);
        y[at + i] = static_cast<T>(l.exclusive ? sum[i] : next);
        sum[i] = next;
      }
    }
  }
}

Prepared ref(const OpCall& call) {
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel([l = Line(call)](const Buffers& b) {
      const std::int64_t size = l.length * l.inner;
      for (std::int64_t o = 0; o < l.outer; ++o) {
        sum_columns(l, b.in<T>(0) + o * size, b.out<T>(0) + o * size, l.inner);
      }
    });
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef cumsum = {.name = "cumsum",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .in_place = kInPlace};

}  // namespace neap::ops
