//   pack_int8(weight [out, in]; transposed = 0: it is [in, out]) -> packed i8, scale f32, sums i32
//   pack_int8(weight [out, (kd, kh,) kw, in])                    -> the same
//   linear_int8(x [..., in], packed, scale, sums, bias?; in, out) -> y [..., out]
//   conv_int8(x, packed, scale, sums, bias?; kernel, out, strides, pads, dilations) -> y, as conv
// No gradients.
#include "ops/int8/int8.h"

#include <algorithm>
#include <cmath>

#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Int8Source packed_of(const OpCall& call) {
  const Shape& w = call.shape(0);
  need_f32(call, 0);
  need(w.is_static() && w.rank() >= 2 && w.rank() <= 5, "takes weights of fixed size, two to five axes");
  const bool transposed = call.attrs.integer("transposed", 0) != 0;
  need(!transposed || w.rank() == 2, "only a matrix can be transposed");
  std::int64_t taps = 1;
  for (int i = 1; i + 1 < w.rank(); ++i) taps *= w.size(i);
  return {{.out = w.size(transposed ? 1 : 0), .taps = taps, .in = w.size(transposed ? 0 : -1)}, transposed};
}

Types packed_types(const Int8Weight& w) {
  return {{DType::kI8, {w.width(), w.taps * w.quads() * 4}}, {DType::kF32, {w.width()}}, {DType::kI32, {w.width()}}};
}

Types infer_pack(const OpCall& call) { return packed_types(packed_of(call).weight); }

// One output channel.
void pack_channel(const Int8Source& s, std::int64_t o, const Buffers& b) {
  const Int8Weight& w = s.weight;
  const float* from = b.in<float>(0) + s.first(o);
  float largest = 0, odd = 0;
  for (std::int64_t i = 0; i < w.taps * w.in; ++i) {
    largest = std::max(largest, std::abs(from[i * s.step()]));
    odd += from[i * s.step()] * 0;
  }
  const float scale = int8_weight_scale(largest, odd);
  b.out<float>(1)[o] = scale;
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < w.taps * w.in && !std::isnan(scale); ++i) {
    const std::int32_t q = int8_weight_byte(from[i * s.step()], scale);
    b.out<std::int8_t>(0)[w.at(o, i / w.in, i % w.in)] = static_cast<std::int8_t>(q);
    sum += q;
  }
  b.out<std::int32_t>(2)[o] = sum;
}

Prepared pack_ref(const OpCall& call) {
  return function_kernel([s = packed_of(call), types = call.outputs](const Buffers& b) {
    for (std::size_t i = 0; i < types.size(); ++i) std::fill_n(b.out<std::byte>(i), types[i].bytes(), std::byte{});
    for (std::int64_t o = 0; o < s.weight.out; ++o) pack_channel(s, o, b);
  });
}
Prepared pack_cuda(const OpCall& call) {
  return pack_int8_cuda != nullptr ? pack_int8_cuda(packed_of(call)) : not_linked();
}

void need_packed(const OpCall& call, const Int8Weight& w) {
  need_f32(call, 0);
  need(w.out > 0 && w.in > 0 && w.taps <= kMostTaps && w.taps * w.in <= kMostTerms, "the weight has another size");
  const Types want = packed_types(w);
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (call.in(1 + i) != want[i]) {
      throw UserError(fmt::format("input {} must be {}, not {}", 1 + i, want[i].text(), call.in(1 + i).text()));
    }
  }
  if (!call.has(4)) return;
  need_f32(call, 4);
  need_same_shape(call.shape(4), {w.out}, "the bias must have one number an output");
}

ConvShape linear_shape(const OpCall& call) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < call.shape(0).rank(); ++i) rows *= call.shape(0).size(i);
  return {.n = rows, .h = 1, .w = 1, .c = call.attrs.integer("in"), .oh = 1, .ow = 1, .o = call.attrs.integer("out")};
}

Types infer_linear(const OpCall& call) {
  const Int8Weight w{.out = call.attrs.integer("out"), .in = call.attrs.integer("in")};
  need_packed(call, w);
  need(call.shape(0).rank() >= 1 && may_equal(call.shape(0)[-1], w.in), "the input has another number of features");
  Shape y = leading(call.shape(0), 1);
  y.push_back(w.out);
  return {{DType::kF32, y}};
}

// The weight's shape as conv has it.
Shape conv_weight(const OpCall& call) {
  Shape weight{call.attrs.integer("out")};
  for (const std::int64_t k : call.attrs.ints("kernel")) weight.push_back(k);
  weight.push_back(call.shape(0)[-1]);
  return weight;
}

ConvShape conv_shape_of(const OpCall& call) {
  return conv_shape(call.shape(0), conv_weight(call), call.outputs[0].shape, call.attrs);
}

Types infer_conv(const OpCall& call) {
  const Shape& x = call.shape(0);
  const int axes = spatial_axes(x);
  const Ints kernel = call.attrs.ints("kernel");
  need(static_cast<int>(kernel.size()) == axes && x[-1].is_number(), "x and kernel do not fit");
  const Window window = window_of(call.attrs, kernel);
  const Int8Weight w{.out = call.attrs.integer("out"),
                     .taps = window.d.kernel * window.h.kernel * window.w.kernel,
                     .in = x[-1].number()};
  need_packed(call, w);
  Shape y{x[0]};
  for (int i = 0; i < axes; ++i) y.push_back(window_positions(x[1 + i], window.axis(i, axes)));
  y.push_back(w.out);
  return {{DType::kF32, y}};
}

template <ConvShape (*kShape)(const OpCall&), Prepared (*kPrepare)(const ConvShape&, bool)>
Prepared prepare(const OpCall& call) {
  return kPrepare(kShape(call), call.has(4));
}
template <ConvShape (*kShape)(const OpCall&)>
Prepared cuda(const OpCall& call) {
  return int8_cuda != nullptr ? int8_cuda(kShape(call)) : not_linked();
}
template <ConvShape (*kShape)(const OpCall&)>
double flops(const OpCall& call) {
  return kShape(call).flops();
}

constexpr KernelEntry kPack[] = {{"cuda", DeviceKind::kCuda, pack_cuda}, {"ref", DeviceKind::kCpu, pack_ref}};
constexpr KernelEntry kLinear[] = {{"cuda", DeviceKind::kCuda, cuda<linear_shape>},
                                   {"simd", DeviceKind::kCpu, prepare<linear_shape, int8_simd>},
                                   {"ref", DeviceKind::kCpu, prepare<linear_shape, int8_ref>}};
constexpr KernelEntry kConv[] = {{"cuda", DeviceKind::kCuda, cuda<conv_shape_of>},
                                 {"simd", DeviceKind::kCpu, prepare<conv_shape_of, int8_simd>},
                                 {"ref", DeviceKind::kCpu, prepare<conv_shape_of, int8_ref>}};

}  // namespace

bool is_int8_weight(const Shape& weight, std::int64_t groups) {
  if (groups != 1 || !weight.is_static() || weight.rank() < 2 || weight.rank() > 5) return false;
  std::int64_t terms = 1;
  for (int i = 1; i < weight.rank(); ++i) terms *= weight.size(i);
  return weight.size(0) > 0 && terms > 0 && terms <= kMostTerms && terms / weight.size(-1) <= kMostTaps;
}

extern constinit const OpDef pack_int8 = {
    .name = "pack_int8", .infer = infer_pack, .kernels = kPack, .kernel_count = std::size(kPack)};
extern constinit const OpDef linear_int8 = {.name = "linear_int8",
                                            .infer = infer_linear,
                                            .kernels = kLinear,
                                            .kernel_count = std::size(kLinear),
                                            .flops = flops<linear_shape>};
extern constinit const OpDef conv_int8 = {.name = "conv_int8",
                                          .infer = infer_conv,
                                          .kernels = kConv,
                                          .kernel_count = std::size(kConv),
                                          .flops = flops<conv_shape_of>};

}  // namespace neap::ops
