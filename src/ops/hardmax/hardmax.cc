// hardmax(x; axis = -1) -> y: 1 at the first maximum along the axis, else 0; floats. Flat wherever it has a slope.
#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/lines_cuda.h"

namespace neap::ops {
namespace {

int axis_in(const OpCall& call) { return axis_of(call.attrs.integer("axis", -1), call.shape(0).rank()); }

Types infer(const OpCall& call) {
  need(is_float(call.in(0).dtype), "takes floats");
  axis_in(call);
  return {call.in(0)};
}

Values nothing_flows(GradientCall& /*c*/) { return {Value{}}; }

LineShape line_of(const OpCall& call) {
  LineShape out;
  const int axis = axis_in(call);
  for (int i = 0; i < call.shape(0).rank(); ++i) {
    (i < axis ? out.outer : i == axis ? out.length : out.inner) *= call.shape(0).size(i);
  }
  return out;
}

Prepared cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  return hardmax_cuda != nullptr ? hardmax_cuda(line_of(call)) : not_linked();
}

Prepared ref(const OpCall& call) {
  const LineShape line = line_of(call);
  return with_float(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel([line](const Buffers& b) {
      const std::int64_t inner = line.inner;
      const std::int64_t width = line.length;
      for (std::int64_t r = 0; r < line.outer * inner && width > 0; ++r) {
        const std::int64_t first = r / inner * width * inner + r % inner;
        const T* x = b.in<T>(0) + first;
        T* y = b.out<T>(0) + first;
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < width; ++i) {
          if (static_cast<double>(x[i * inner]) > static_cast<double>(x[best * inner])) best = i;
        }
        for (std::int64_t i = 0; i < width; ++i) y[i * inner] = static_cast<T>(i == best ? 1.0 : 0.0);
      }
    });
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef hardmax = {.name = "hardmax",
                                        .infer = infer,
                                        .gradient = nothing_flows,
                                        .kernels = kKernels,
                                        .kernel_count = std::size(kKernels),
                                        .in_place = kInPlace};

}  // namespace neap::ops
