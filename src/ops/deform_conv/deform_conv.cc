// deform_conv(x [N, H, W, C], weight [O, KH, KW, C / groups], offset [N, OH, OW, offset_groups * KH * KW * 2], bias?
// [O], mask? [N, OH, OW, offset_groups * KH * KW]; strides, pads, dilations, groups, offset_groups = 1) -> y [N, OH,
// OW, O]: a convolution whose taps are moved by `offset` (down, then right, for each tap of each group of channels),
// read bilinearly with zeros outside, and multiplied by `mask`. f32, no gradient.
#include "ops/deform_conv/deform_conv.h"

#include "ops/conv/conv_points.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

std::int64_t offset_groups(const OpCall& call) { return call.attrs.integer("offset_groups", 1); }

Types infer(const OpCall& call) {
  expect_f32(call);
  need(call.shape(0).rank() == 4, "takes [N, H, W, C]");
  OpCall plain{.op = &op_named("conv"), .attrs = call.attrs, .inputs = {call.in(0), call.in(1)}};
  if (call.has(3)) plain.inputs.emplace_back(call.in(3));
  Types types = plain.op->infer(plain);
  const std::int64_t groups = offset_groups(call);
  const Dim& channels = call.shape(0)[-1];
  need(groups >= 1 && channels.is_number() && channels.number() % groups == 0,
       "offset_groups must divide the channels");
  Shape moves = types[0].shape;
  moves[-1] = groups * call.shape(1).size(1) * call.shape(1).size(2) * 2;
  need_same_shape(call.shape(2), moves, "two offsets a tap");
  moves[-1] = moves[-1].number() / 2;
  if (call.has(4)) need_same_shape(call.shape(4), moves, "one number of the mask a tap");
  return types;
}

double output(const DeformConv& conv, const Buffers& b, const ConvPoints& p, std::int64_t n, const Point& to,
              std::int64_t o) {
  const ConvShape& s = conv.s;
  const std::int64_t taps = p.taps.h * p.taps.w;
  const std::int64_t pixel = n * s.oh * s.ow + to.at(p.out);
  const float* offset = b.in<float>(2) + pixel * conv.offset_groups * taps * 2;
  const float* mask = b.in<float>(4) != nullptr ? b.in<float>(4) + pixel * conv.offset_groups * taps : nullptr;
  double sum = b.in<float>(3) != nullptr ? b.in<float>(3)[o] : 0;
  each_point(p.taps, [&](const Point& tap) {
    const Point from = p.from(to, tap);
    for (std::int64_t k = 0; k < p.cg; ++k) {
      const std::int64_t c = o / p.og * p.cg + k;
      const std::int64_t t = c / (s.c / conv.offset_groups) * taps + tap.at(p.taps);
      const double value =
          conv.sample(b.in<float>(0) + n * s.h * s.w * s.c + c, static_cast<double>(from.h) + offset[2 * t],
                      static_cast<double>(from.w) + offset[2 * t + 1]);
      sum += value * b.in<float>(1)[p.w_at(o, tap) + k] * (mask != nullptr ? mask[t] : 1);
    }
  });
  return sum;
}

Prepared ref(const OpCall& call) {
  return function_kernel([conv = deform_conv_of(call)](const Buffers& b) {
    const ConvShape& s = conv.s;
    const ConvPoints p{s};
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < s.n * s.oh * s.ow; ++t) {
      const Point to{0, t / s.ow % s.oh, t % s.ow};
      const std::int64_t n = t / (s.oh * s.ow);
      for (std::int64_t o = 0; o < s.o; ++o)
        b.out<float>(0)[t * s.o + o] = static_cast<float>(output(conv, b, p, n, to, o));
    }
  });
}

double flops(const OpCall& call) {
  return 8 * conv_shape(call.shape(0), call.shape(1), call.outputs[0].shape, call.attrs).flops();
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, deform_conv_cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

DeformConv deform_conv_of(const OpCall& call) {
  return {.s = conv_shape(call.shape(0), call.shape(1), call.outputs[0].shape, call.attrs),
          .offset_groups = offset_groups(call)};
}

extern constinit const OpDef deform_conv = {
    .name = "deform_conv", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels), .flops = flops};

}  // namespace neap::ops
