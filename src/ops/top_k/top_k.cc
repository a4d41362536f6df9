// top_k(x; k, axis = -1, largest = 1, sorted = 1) -> values, indices (i64): the k best elements along the axis, best
// first, of equals the one that comes first. NaN is better than all. Numbers of any type; gradient of the values.
#include "ops/top_k/top_k.h"

#include <algorithm>

#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

int axis_in(const OpCall& call) { return axis_of(call.attrs.integer("axis", -1), call.shape(0).rank()); }

Types infer(const OpCall& call) {
  need(is_number(call.in(0).dtype), "takes numbers");
  const int axis = axis_in(call);
  const std::int64_t k = call.attrs.integer("k");
  Shape y = call.shape(0);
  if (k < 0 || (y[axis].is_number() && k > y[axis].number())) {
    throw UserError(fmt::format("k = {} does not fit an axis of {}", k, y[axis].text()));
  }
  y[axis] = k;
  return {{call.in(0).dtype, y}, {DType::kI64, y}};
}

Values gradient(GradientCall& c) {
  const Shape x = known_shape(c.g.shape(c.x(0)), "the gradient of top_k");
  const Value zeros = c.g("fill", {}, {{"shape", x}, {"value", 0.0}, {"dtype", std::string("f32")}});
  const std::int64_t axis = c.node.attrs.integer("axis", -1);
  return {c.g("scatter_elements", {zeros, c.y(1), c.dy[0]}, {{"axis", axis}})};
}

TopKLines lines_of(const OpCall& call) {
  TopKLines lines{.k = call.attrs.integer("k"), .largest = call.attrs.integer("largest", 1) != 0};
  const int axis = axis_in(call);
  for (int i = 0; i < call.shape(0).rank(); ++i) {
    (i < axis ? lines.outer : i == axis ? lines.width : lines.inner) *= call.shape(0).size(i);
  }
  return lines;
}

struct Line : TopKLines {
  template <class T>
  bool is_better(Compute<T> a, Compute<T> b) const {
    if constexpr (!kIsInteger<T>) {
      if (a != a || b != b) return a != a && b == b;
    }
    return largest ? a > b : a < b;
  }

  template <class T>
  void run(const T* x, T* values, std::int64_t* indices, std::int64_t* order) const {
    for (std::int64_t i = 0; i < width; ++i) order[i] = i;
    std::partial_sort(order, order + k, order + width, [&](std::int64_t p, std::int64_t q) {
      const Compute<T> a = x[p * inner];
      const Compute<T> b = x[q * inner];
      if (is_better<T>(a, b)) return true;
      return !is_better<T>(b, a) && p < q;
    });
    for (std::int64_t i = 0; i < k; ++i) {
      if (values != nullptr) values[i * inner] = x[order[i] * inner];
      if (indices != nullptr) indices[i * inner] = order[i];
    }
  }
};

Prepared cuda(const OpCall& call) {
  return top_k_cuda != nullptr ? top_k_cuda(lines_of(call), call.in(0).dtype) : not_linked();
}

Prepared ref(const OpCall& call) {
  const Line line{lines_of(call)};
  return with_type(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel(
        [line](const Buffers& b) {
          for (std::int64_t r = 0; r < line.outer * line.inner; ++r) {
            const std::int64_t row = r / line.inner;
            const std::int64_t column = r % line.inner;
            const std::int64_t to = row * line.k * line.inner + column;
            T* values = b.out<T>(0);
            auto* indices = b.out<std::int64_t>(1);
            line.run(b.in<T>(0) + row * line.width * line.inner + column, values != nullptr ? values + to : nullptr,
                     indices != nullptr ? indices + to : nullptr, reinterpret_cast<std::int64_t*>(b.workspace));
          }
        },
        line.width * 8);
  });
}

double flops(const OpCall& call) { return 4.0 * static_cast<double>(call.in(0).elements()); }

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef top_k = {.name = "top_k",
                                      .infer = infer,
                                      .gradient = gradient,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .flops = flops,
                                      .optional_outputs = 0b11};

}  // namespace neap::ops
