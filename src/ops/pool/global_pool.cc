// global_average_pool, global_max_pool: [N, (D, H,) W, C] -> [N, (1, 1,) 1, C]; the latter gives the pixel's index too.
// global_average_pool_grad(dy; shape), global_max_pool_grad(dy, index; shape) -> dx
#include <cmath>

#include "neap/error.h"
#include "ops/conv/conv.h"
#include "ops/pool/pool.h"

namespace neap::ops {
namespace {

Types infer_average(const OpCall& call) {
  expect_f32(call);
  return {{DType::kF32, pooled_globally(call.shape(0))}};
}

Types infer_max(const OpCall& call) {
  Types types = infer_average(call);
  types.push_back({DType::kI32, types[0].shape});
  return types;
}

Types infer_grad(const OpCall& call) {
  const Shape x = call.attrs.shape("shape");
  const bool fits = call.in(0).dtype == DType::kF32 && call.shape(0) == pooled_globally(x);
  if (!fits) throw UserError("takes an f32 gradient of the pooled shape");
  if (call.has(1) && !(call.in(1) == TensorType{DType::kI32, call.shape(0)})) throw UserError("takes an i32 index");
  return {{DType::kF32, x}};
}

Values average_gradient(GradientCall& c) {
  return {c.g("global_average_pool_grad", {c.dy[0]}, {{"shape", c.g.shape(c.x(0))}})};
}

Values max_gradient(GradientCall& c) {
  return {c.g("global_max_pool_grad", {c.dy[0], c.y(1)}, {{"shape", c.g.shape(c.x(0))}})};
}

double flops(const OpCall& call) { return static_cast<double>(call.in(0).elements()); }

Prepared average_simd(const OpCall& call) {
  return function_kernel([s = global_shape(call.shape(0))](const Buffers& b) {
    pool_table().global_average(s, b.in<float>(0), b.out<float>(0));
  });
}

Prepared average_grad_simd(const OpCall& call) {
  return function_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b) {
    pool_table().global_average_grad(s, b.in<float>(0), b.out<float>(0));
  });
}

Prepared max_simd(const OpCall& call) {
  return function_kernel([s = global_shape(call.shape(0))](const Buffers& b) {
    pool_table().global_max(s, b.in<float>(0), b.out<float>(0), b.out<std::int32_t>(1));
  });
}

Prepared max_grad_simd(const OpCall& call) {
  return function_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b) {
    pool_table().global_max_grad(s, b.in<float>(0), b.in<std::int32_t>(1), b.out<float>(0));
  });
}

Prepared average_ref(const OpCall& call) {
  return function_kernel([s = global_shape(call.shape(0))](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n * s.c; ++i) {
      const float* x = b.in<float>(0) + i / s.c * s.rows * s.c + i % s.c;
      double sum = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) sum += x[r * s.c];
      b.out<float>(0)[i] = static_cast<float>(sum / static_cast<double>(s.rows));
    }
  });
}

Prepared average_grad_ref(const OpCall& call) {
  return function_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n * s.rows * s.c; ++i) {
      const double dy = b.in<float>(0)[i / (s.rows * s.c) * s.c + i % s.c];
      b.out<float>(0)[i] = static_cast<float>(dy / static_cast<double>(s.rows));
    }
  });
}

Prepared max_ref(const OpCall& call) {
  return function_kernel([s = global_shape(call.shape(0))](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n * s.c; ++i) {
      const float* x = b.in<float>(0) + i / s.c * s.rows * s.c + i % s.c;
      std::int64_t best = 0;
      for (std::int64_t r = 1; r < s.rows; ++r) {
        if (x[r * s.c] > x[best * s.c] || std::isnan(x[r * s.c])) best = r;
      }
      b.out<float>(0)[i] = x[best * s.c];
      if (b.outputs[1] != nullptr) b.out<std::int32_t>(1)[i] = static_cast<std::int32_t>(best);
    }
  });
}

Prepared max_grad_ref(const OpCall& call) {
  return function_kernel([s = global_shape(call.outputs[0].shape)](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n * s.rows * s.c; ++i) {
      const std::int64_t from = i / (s.rows * s.c) * s.c + i % s.c;
      const bool chosen = b.in<std::int32_t>(1)[from] == i / s.c % s.rows;
      b.out<float>(0)[i] = chosen ? b.in<float>(0)[from] : 0;
    }
  });
}

constexpr KernelEntry kAverage[] = {{"cuda", DeviceKind::kCuda, global_average_pool_cuda},
                                    {"simd", DeviceKind::kCpu, average_simd},
                                    {"ref", DeviceKind::kCpu, average_ref}};
constexpr KernelEntry kAverageGrad[] = {{"cuda", DeviceKind::kCuda, global_average_pool_grad_cuda},
                                        {"simd", DeviceKind::kCpu, average_grad_simd},
                                        {"ref", DeviceKind::kCpu, average_grad_ref}};
constexpr KernelEntry kMax[] = {{"cuda", DeviceKind::kCuda, global_max_pool_cuda},
                                {"simd", DeviceKind::kCpu, max_simd},
                                {"ref", DeviceKind::kCpu, max_ref}};
constexpr KernelEntry kMaxGrad[] = {{"cuda", DeviceKind::kCuda, global_max_pool_grad_cuda},
                                    {"simd", DeviceKind::kCpu, max_grad_simd},
                                    {"ref", DeviceKind::kCpu, max_grad_ref}};

}  // namespace

extern constinit const OpDef global_average_pool = {.name = "global_average_pool",
                                                    .infer = infer_average,
                                                    .gradient = average_gradient,
                                                    .kernels = kAverage,
                                                    .kernel_count = std::size(kAverage),
                                                    .flops = flops};

extern constinit const OpDef global_average_pool_grad = {.name = "global_average_pool_grad",
                                                         .infer = infer_grad,
                                                         .kernels = kAverageGrad,
                                                         .kernel_count = std::size(kAverageGrad)};

extern constinit const OpDef global_max_pool = {.name = "global_max_pool",
                                                .infer = infer_max,
                                                .gradient = max_gradient,
                                                .kernels = kMax,
                                                .kernel_count = std::size(kMax),
                                                .flops = flops,
                                                .optional_outputs = 0b10};

extern constinit const OpDef global_max_pool_grad = {
    .name = "global_max_pool_grad", .infer = infer_grad, .kernels = kMaxGrad, .kernel_count = std::size(kMaxGrad)};

}  // namespace neap::ops
