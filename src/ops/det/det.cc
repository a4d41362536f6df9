// det(x [..., n, n]) -> y [...]: determinants by elimination with pivots, in double. Floats, no gradient.
#include "ops/det/det.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const Shape& x = call.shape(0);
  need(is_float(call.in(0).dtype), "takes floats");
  need(x.rank() >= 2 && may_equal(x[-1], x[-2]), "takes square matrices");
  return {{call.in(0).dtype, leading(x, 2)}};
}

// Destroys the matrix.
double determinant(double* a, std::int64_t n) {
  double product = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(a + pivot * n, a + (pivot + 1) * n, a + k * n);
      product = -product;
    }
    product *= a[k * n + k];
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (std::int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

Prepared ref(const OpCall& call) {
  const std::int64_t n = call.shape(0).size(-1);
  return with_float(call.in(0).dtype, [&]<class T>(Type<T>) {
    return function_kernel(
        [n, count = call.outputs[0].elements()](const Buffers& b) {
          auto* a = reinterpret_cast<double*>(b.workspace);
          for (std::int64_t m = 0; m < count; ++m) {
            for (std::int64_t i = 0; i < n * n; ++i) a[i] = b.in<T>(0)[m * n * n + i];
            b.out<T>(0)[m] = static_cast<T>(determinant(a, n));
          }
        },
        n * n * 8);
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, det_cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef det = {
    .name = "det", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels)};

}  // namespace neap::ops
