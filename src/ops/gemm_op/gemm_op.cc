#include "ops/gemm_op/gemm_op.h"

#include <omp.h>

#include "device/cpu/gemm.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  need_f32(call, 0);
  need_f32(call, 1);
  const Shape& a = call.shape(0);
  const Shape& b = call.shape(1);
  need(a.rank() == 2 && b.rank() == 2, "takes two matrices");
  const bool trans_a = call.attrs.integer("trans_a", 0) != 0;
  const bool trans_b = call.attrs.integer("trans_b", 0) != 0;
  if (!may_equal(a[trans_a ? 0 : 1], b[trans_b ? 1 : 0])) {
    throw UserError(
        fmt::format("the inner axes differ: {} and {}", a[trans_a ? 0 : 1].text(), b[trans_b ? 1 : 0].text()));
  }
  call.attrs.real("alpha", 1);
  call.attrs.real("beta", 1);
  const Shape out = {a[trans_a ? 1 : 0], b[trans_b ? 0 : 1]};
  if (call.has(2)) {
    need_f32(call, 2);
    const Shape& c = call.shape(2);
    bool fits = c.rank() <= 2;
    for (int i = 1; fits && i <= c.rank(); ++i) fits = c[-i] == Dim(1) || may_equal(c[-i], out[-i]);
    if (!fits) throw UserError(fmt::format("c {} does not broadcast to {}", c.text(), out.text()));
  }
  return {{DType::kF32, out}};
}

Attrs product_attrs(bool trans_a, bool trans_b, double alpha) {
  Attrs attrs;
  if (trans_a) attrs.set("trans_a", std::int64_t{1});
  if (trans_b) attrs.set("trans_b", std::int64_t{1});
  if (alpha != 1) attrs.set("alpha", alpha);
  return attrs;
}

Value gradient_of_c(GradientCall& c, double beta) {
  const Shape shape = c.g.shape(c.x(2));
  const Value sum = c.g.shape(c.dy[0]) == shape ? c.dy[0] : c.g("sum_to", {c.dy[0]}, {{"shape", shape}});
  return beta == 1 ? sum : c.g("mul", {sum, c.g.scalar(beta)});
}

Values gradient(GradientCall& c) {
  const bool ta = c.node.attrs.integer("trans_a", 0) != 0;
  const bool tb = c.node.attrs.integer("trans_b", 0) != 0;
  const double alpha = c.node.attrs.real("alpha", 1);
  Values dx(c.node.inputs.size());
  if (c.wants(2)) dx[2] = gradient_of_c(c, c.node.attrs.real("beta", 1));
  if (c.wants(1)) {
    dx[1] = tb ? c.g("matmul", {c.dy[0], c.x(0)}, product_attrs(true, ta, alpha))
               : c.g("matmul", {c.x(0), c.dy[0]}, product_attrs(!ta, false, alpha));
  }
  if (c.wants(0)) {
    dx[0] = ta ? c.g("matmul", {c.x(1), c.dy[0]}, product_attrs(tb, true, alpha))
               : c.g("matmul", {c.dy[0], c.x(1)}, product_attrs(false, !tb, alpha));
  }
  return dx;
}

double flops(const OpCall& call) {
  const GemmCall g = gemm_call(call);
  return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

Prepared onednn(const OpCall& call) { return gemm_onednn != nullptr ? gemm_onednn(call) : not_linked(); }

constexpr KernelEntry kKernels[] = {{"cublaslt", DeviceKind::kCuda, gemm_cuda},
                                    {"onednn", DeviceKind::kCpu, onednn},
                                    {"simd", DeviceKind::kCpu, gemm_own},
                                    {"ref", DeviceKind::kCpu, gemm_ref}};

}  // namespace

GemmCall gemm_call(const OpCall& call) {
  GemmCall g{.trans_a = call.attrs.integer("trans_a", 0) != 0,
             .trans_b = call.attrs.integer("trans_b", 0) != 0,
             .alpha = static_cast<float>(call.attrs.real("alpha", 1)),
             .beta = static_cast<float>(call.attrs.real("beta", 1)),
             .has_c = call.has(2)};
  g.m = call.shape(0).size(g.trans_a ? 1 : 0);
  g.k = call.shape(0).size(g.trans_a ? 0 : 1);
  g.n = call.shape(1).size(g.trans_b ? 0 : 1);
  if (!g.has_c) return g;
  const Shape& c = call.shape(2);
  g.c_column = c.rank() > 0 && c.size(-1) != 1 ? 1 : 0;
  g.c_row = c.rank() == 2 && c.size(0) != 1 ? c.size(1) : 0;
  return g;
}

void spread_c(const GemmCall& g, const float* c, float* out) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) out[i * g.n + j] = g.beta * c[i * g.c_row + j * g.c_column];
  }
}

Prepared gemm_own(const OpCall& call) {
  const GemmCall g = gemm_call(call);
  const GemmShape shape = {.m = g.m, .n = g.n, .k = g.k};
  const auto run = [g, shape](const Buffers& b) {
    auto* out = b.out<float>(0);
    if (g.has_c) spread_c(g, b.in<float>(2), out);
    gemm_parallel(shape, {b.in<float>(0), g.trans_a ? g.m : g.k, g.trans_a},
                  {b.in<float>(1), g.trans_b ? g.k : g.n, g.trans_b}, {out, g.n, g.has_c},
                  reinterpret_cast<float*>(b.workspace), g.alpha);
  };
  return function_kernel(run, static_cast<std::int64_t>(gemm_scratch_bytes(shape, omp_get_max_threads())));
}

Prepared gemm_ref(const OpCall& call) {
  return function_kernel([g = gemm_call(call)](const Buffers& b) {
    const std::int64_t a_row = g.trans_a ? 1 : g.k;
    const std::int64_t a_k = g.trans_a ? g.m : 1;
    const std::int64_t b_k = g.trans_b ? 1 : g.n;
    const std::int64_t b_column = g.trans_b ? g.k : 1;
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += static_cast<double>(b.in<float>(0)[i * a_row + k * a_k]) * b.in<float>(1)[k * b_k + j * b_column];
        }
        sum *= g.alpha;
        if (g.has_c) sum += static_cast<double>(g.beta) * b.in<float>(2)[i * g.c_row + j * g.c_column];
        b.out<float>(0)[i * g.n + j] = static_cast<float>(sum);
      }
    }
  });
}

extern constinit const OpDef gemm = {.name = "gemm",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .kernels = kKernels,
                                     .kernel_count = std::size(kKernels),
                                     .flops = flops};

}  // namespace neap::ops
