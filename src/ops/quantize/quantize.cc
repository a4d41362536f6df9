// quantize_linear(x, scale, zero_point?; axis = 1, block_size = 0, dtype) -> y = round(x / scale) + zero_point, halves
// to even, held within the range of y's type: that of zero_point, else `dtype` (u8 when missing): u8, i8, u16 or i16.
//
// dequantize_linear(x, scale, zero_point?; axis = 1, block_size = 0) -> y = (x - zero_point) * scale, of scale's type;
// x is u8, i8, u16, i16 or i32.
//
// scale (and zero_point, of the same shape) is a scalar or [1]; or [length of x's `axis`]; or, with block_size > 0, of
// x's shape with ceil(length / block_size) along `axis`. No gradients.
#include "ops/quantize/quantize.h"

#include <cmath>

#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

bool is_one(const Shape& shape) { return shape.rank() == 0 || shape == Shape{1}; }

void check_scale(const OpCall& call, std::size_t i) {
  const Shape& x = call.shape(0);
  const Shape& scale = call.shape(i);
  const std::int64_t block = call.attrs.integer("block_size", 0);
  need(block >= 0, "block_size must not be negative");
  if (is_one(scale)) return;
  const int axis = axis_of(call.attrs.integer("axis", 1), x.rank());
  if (block == 0) return need_same_shape(scale, Shape{x[axis]}, "one scale a slice of the axis");
  Shape blocks = x;
  blocks[axis] = x[axis].is_number() ? Dim((x[axis].number() + block - 1) / block) : Dim::unknown();
  need_same_shape(scale, blocks, "one scale a block");
}

void check_scales(const OpCall& call) {
  need(is_float(call.in(1).dtype), "the scale must be of floats");
  check_scale(call, 1);
  if (!call.has(2)) return;
  check_scale(call, 2);
  need_same_shape(call.shape(2), call.shape(1), "zero_point must have scale's shape");
}

DType quantized_type(const OpCall& call) {
  const std::string text = call.attrs.text("dtype", call.has(2) ? name(call.in(2).dtype) : "u8");
  const auto type = parse_dtype(text);
  const bool is_small =
      type && (*type == DType::kU8 || *type == DType::kI8 || *type == DType::kU16 || *type == DType::kI16);
  if (!is_small) throw UserError(fmt::format("makes u8, i8, u16 and i16, not {}", text));
  need(!call.has(2) || call.in(2).dtype == *type, "zero_point must have the type of the result");
  return *type;
}

Types infer_quantize(const OpCall& call) {
  need(is_float(call.in(0).dtype) || call.in(0).dtype == DType::kI32, "takes floats or i32");
  check_scales(call);
  return {{quantized_type(call), call.shape(0)}};
}

Types infer_dequantize(const OpCall& call) {
  const DType type = call.in(0).dtype;
  const bool is_known =
      type == DType::kU8 || type == DType::kI8 || type == DType::kU16 || type == DType::kI16 || type == DType::kI32;
  need(is_known, "takes u8, i8, u16, i16 or i32");
  need(!call.has(2) || call.in(2).dtype == type, "zero_point must have the type of x");
  check_scales(call);
  return {{call.in(1).dtype, call.shape(0)}};
}

struct Inputs {
  DType x, scale, zero;
  explicit Inputs(const OpCall& call)
      : x(call.in(0).dtype), scale(call.in(1).dtype), zero(call.has(2) ? call.in(2).dtype : DType::kU8) {}

  double scale_at(const Buffers& b, std::int64_t i) const { return real_at(scale, b.inputs[1], i); }
  double zero_at(const Buffers& b, std::int64_t i) const {
    return b.in<std::byte>(2) == nullptr ? 0 : real_at(zero, b.inputs[2], i);
  }
};

// The quotient is rounded to x's type, as if computed in it.
double quotient(DType type, double x, double scale) {
  if (!is_float(type)) return x / scale;
  return with_float(type, [&]<class T>(Type<T>) { return static_cast<double>(static_cast<T>(x / scale)); });
}

Prepared quantize_ref(const OpCall& call) {
  return function_kernel([s = scales_of(call), in = Inputs(call), to = call.outputs[0].dtype](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n; ++i) {
      const std::int64_t k = s.at(i);
      const double units = std::nearbyint(quotient(in.x, real_at(in.x, b.inputs[0], i), in.scale_at(b, k)));
      set_real(to, b.outputs[0], i, units + in.zero_at(b, k));
    }
  });
}

Prepared dequantize_ref(const OpCall& call) {
  return function_kernel([s = scales_of(call), in = Inputs(call), to = call.outputs[0].dtype](const Buffers& b) {
    for (std::int64_t i = 0; i < s.n; ++i) {
      const std::int64_t k = s.at(i);
      set_real(to, b.outputs[0], i, (real_at(in.x, b.inputs[0], i) - in.zero_at(b, k)) * in.scale_at(b, k));
    }
  });
}

constexpr KernelEntry kQuantize[] = {{"cuda", DeviceKind::kCuda, quantize_cuda},
                                     {"ref", DeviceKind::kCpu, quantize_ref}};
constexpr KernelEntry kDequantize[] = {{"cuda", DeviceKind::kCuda, dequantize_cuda},
                                       {"ref", DeviceKind::kCpu, dequantize_ref}};

}  // namespace

Scales scales_of(const OpCall& call) {
  Scales s{.n = call.in(0).elements(), .is_one = is_one(call.shape(1))};
  if (s.is_one) return s;
  const Shape& x = call.shape(0);
  const int axis = axis_of(call.attrs.integer("axis", 1), x.rank());
  s.length = x.size(axis);
  for (int i = axis + 1; i < x.rank(); ++i) s.inner *= x.size(i);
  s.block = call.attrs.integer("block_size", 0);
  return s;
}

extern constinit const OpDef quantize_linear = {.name = "quantize_linear",
                                                .infer = infer_quantize,
                                                .kernels = kQuantize,
                                                .kernel_count = std::size(kQuantize),
                                                .cheap = true};
extern constinit const OpDef dequantize_linear = {.name = "dequantize_linear",
                                                  .infer = infer_dequantize,
                                                  .kernels = kDequantize,
                                                  .kernel_count = std::size(kDequantize),
                                                  .cheap = true};

}  // namespace neap::ops
