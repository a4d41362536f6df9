// lrn(x [..., C]; size, alpha = 1e-4, beta = 0.75, bias = 1) -> y: y = x * s^-beta with s = bias + alpha / size * the
// sum of the squares of the `size` channels around (channels are the LAST axis). f32. lrn_grad(dy, x; the same) -> dx =
// dy s^-beta - 2 alpha beta / size * x * sum over the windows that hold it of dy x s^(-beta-1).
#include "ops/lrn/lrn.h"

#include <cmath>

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

struct Args {
  std::int64_t size, channels;
  std::int64_t rows = 0;
  double alpha, beta, bias;

  explicit Args(const OpCall& call)
      : size(call.attrs.integer("size")),
        channels(call.shape(0)[-1].is_number() ? call.shape(0).size(-1) : 0),
        alpha(call.attrs.real("alpha", 1e-4)),
        beta(call.attrs.real("beta", 0.75)),
        bias(call.attrs.real("bias", 1)) {
    if (channels > 0 && call.shape(0).is_static()) rows = call.in(0).elements() / channels;
  }
  std::int64_t before() const { return (size - 1) / 2; }
  std::int64_t behind() const { return size / 2; }

  double sum_at(const float* x, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t i = std::max<std::int64_t>(0, c - before()); i <= std::min(channels - 1, c + behind()); ++i) {
      sum += static_cast<double>(x[i]) * x[i];
    }
    return bias + alpha / static_cast<double>(size) * sum;
  }
};

Types infer(const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) need_f32(call, i);
  need(call.shape(0).rank() >= 2, "takes [N, ..., C]");
  need(Args(call).size >= 1, "size must be positive");
  return {call.in(0)};
}

Types infer_grad(const OpCall& call) {
  need(call.in(0) == call.in(1), "takes two tensors of one shape");
  return infer(call);
}

Values gradient(GradientCall& c) { return {c.g("lrn_grad", {c.dy[0], c.x(0)}, c.node.attrs)}; }

LrnShape shape_of(const OpCall& call) {
  const Args a(call);
  return {a.rows, a.channels, a.size, a.alpha, a.beta, a.bias};
}

Prepared cuda(const OpCall& call) { return lrn_cuda != nullptr ? lrn_cuda(shape_of(call)) : not_linked(); }
Prepared cuda_grad(const OpCall& call) {
  return lrn_grad_cuda != nullptr ? lrn_grad_cuda(shape_of(call)) : not_linked();
}

Prepared ref(const OpCall& call) {
  return function_kernel([a = Args(call)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const float* x = b.in<float>(0) + r * a.channels;
      float* y = b.out<float>(0) + r * a.channels;
      for (std::int64_t c = 0; c < a.channels; ++c) {
        y[c] = static_cast<float>(x[c] * std::pow(a.sum_at(x, c), -a.beta));
      }
    }
  });
}

void grad_row(const Args& a, const float* dy, const float* x, float* dx) {
  const double factor = -2 * a.alpha * a.beta / static_cast<double>(a.size);
  for (std::int64_t c = 0; c < a.channels; ++c) {
    double sum = 0;
    const std::int64_t first = std::max<std::int64_t>(0, c - a.behind());
    const std::int64_t last = std::min(a.channels - 1, c + a.before());
    for (std::int64_t j = first; j <= last; ++j) {
      sum += static_cast<double>(dy[j]) * x[j] * std::pow(a.sum_at(x, j), -a.beta - 1);
    }
    dx[c] = static_cast<float>(dy[c] * std::pow(a.sum_at(x, c), -a.beta) + factor * x[c] * sum);
  }
}

Prepared ref_grad(const OpCall& call) {
  return function_kernel([a = Args(call)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t r = 0; r < a.rows; ++r) {
      const std::int64_t at = r * a.channels;
      grad_row(a, b.in<float>(0) + at, b.in<float>(1) + at, b.out<float>(0) + at);
    }
  });
}

double flops(const OpCall& call) {
  return (20.0 + 2.0 * static_cast<double>(call.attrs.integer("size"))) * static_cast<double>(call.in(0).elements());
}

constexpr KernelEntry kForward[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, cuda_grad}, {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef lrn = {.name = "lrn",
                                    .infer = infer,
                                    .gradient = gradient,
                                    .kernels = kForward,
                                    .kernel_count = std::size(kForward),
                                    .flops = flops};
extern constinit const OpDef lrn_grad = {.name = "lrn_grad",
                                         .infer = infer_grad,
                                         .kernels = kBackward,
                                         .kernel_count = std::size(kBackward),
                                         .flops = flops};

}  // namespace neap::ops
