// matmul_integer(a, b, a_zero?, b_zero?) -> i32: (a - a_zero) (b - b_zero) by numpy's rule for vectors and batches; a
// and b are u8 or i8. A zero point is a scalar or [1]; that of a also [M] or [..., M, 1] (one a row), that of b also
// [N] or [..., 1, N] (one a column).
//
// conv_integer(x [N, (D, H,) W, C], weight [O, (KD, KH,) KW, C / groups], x_zero?, w_zero?; strides, pads, dilations,
// groups) -> i32 [N, ..., O]: the convolution of x - x_zero with weight - w_zero; x_zero is a scalar or [1], w_zero may
// be [O] as well.
#include "ops/integer_product/integer_product.h"

#include "ops/conv/conv_points.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/matmul/checks.h"
#include "ops/matmul/matmul.h"

namespace neap::ops {
namespace {

bool is_byte(DType type) { return type == DType::kU8 || type == DType::kI8; }

void check_bytes(const OpCall& call) {
  for (const std::size_t i : {0UL, 1UL}) {
    need(is_byte(call.in(i).dtype), "takes u8 and i8");
    need(!call.has(i + 2) || call.in(i + 2).dtype == call.in(i).dtype, "a zero point must have its tensor's type");
  }
}

// The types of the same op on floats.
Types infer_like(std::string_view op, const OpCall& call) {
  OpCall plain{.op = &op_named(op), .attrs = call.attrs};
  for (const std::size_t i : {0UL, 1UL}) plain.inputs.emplace_back(TensorType{DType::kF32, call.shape(i)});
  return {{DType::kI32, plain.op->infer(plain)[0].shape}};
}

// What broadcasts to the operand; one zero a row of a is a column.
Shape zero_shape(const OpCall& call, std::size_t operand) {
  const Shape& zero = call.shape(operand + 2);
  const bool by_rows = operand == 0 && zero.rank() == 1 && !(zero == Shape{1}) && call.shape(0).rank() > 1;
  return by_rows ? Shape{zero[0], 1} : zero;
}

Types infer_matmul(const OpCall& call) {
  check_bytes(call);
  for (const std::size_t i : {0UL, 1UL}) {
    if (!call.has(i + 2)) continue;
    if (!(broadcast(call.shape(i), zero_shape(call, i)) == call.shape(i))) {
      throw UserError(fmt::format("zero point {} does not fit {}", call.shape(i + 2).text(), call.shape(i).text()));
    }
  }
  return infer_like("matmul", call);
}

Types infer_conv(const OpCall& call) {
  check_bytes(call);
  const auto is_one = [](const Shape& s) { return s.rank() == 0 || s == Shape{1}; };
  need(!call.has(2) || is_one(call.shape(2)), "x_zero must be one number");
  need(!call.has(3) || is_one(call.shape(3)) || call.shape(3) == Shape{call.shape(1)[0]},
       "w_zero must be one number, or one an output channel");
  return infer_like("conv", call);
}

std::int64_t byte_at(bool is_signed, const std::byte* data, std::int64_t i) {
  const auto bits = std::to_integer<std::uint8_t>(data[i]);
  return is_signed ? static_cast<std::int8_t>(bits) : bits;
}

std::int64_t element(const ByteOperand& o, const std::byte* data, const std::byte* zeros, std::int64_t i) {
  const std::int64_t zero = o.has_zero ? byte_at(o.is_signed, zeros, broadcast_offsets(o.plan, i)[0]) : 0;
  return byte_at(o.is_signed, data, i) - zero;
}

Prepared matmul_ref_of_bytes(const OpCall& call) {
  return function_kernel(
      [p = matmul_plan(call), x = byte_operand(call, 0), y = byte_operand(call, 1)](const Buffers& buffers) {
        const Matrix a = dense_matrix(p.m, p.k, false);
        const Matrix b = dense_matrix(p.k, p.n, false);
        const auto* a_zeros = buffers.in<std::byte>(2);
        const auto* b_zeros = buffers.in<std::byte>(3);
        auto* out = buffers.out<std::int32_t>(0);
        for (std::int64_t t = 0; t < p.batches(); ++t) {
          for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
              std::int64_t sum = 0;
              for (std::int64_t l = 0; l < p.k; ++l) {
                sum += element(x, buffers.inputs[0], a_zeros, p.a_offset(t) + i * a.row + l * a.column) *
                       element(y, buffers.inputs[1], b_zeros, p.b_offset(t) + l * b.row + j * b.column);
              }
              *out++ = static_cast<std::int32_t>(sum);
            }
          }
        }
      });
}

void run(const ByteConv& conv, const Buffers& b) {
  const ConvShape& s = conv.s;
  const ConvPoints p{s};
  const auto* x_zeros = b.in<std::byte>(2);
  const auto* w_zeros = b.in<std::byte>(3);
  const std::int64_t x_zero = x_zeros != nullptr ? byte_at(conv.x_signed, x_zeros, 0) : 0;
  for (std::int64_t n = 0; n < s.n; ++n) {
    each_point(p.out, [&](const Point& to) {
      for (std::int64_t o = 0; o < s.o; ++o) {
        const std::int64_t w_zero =
            w_zeros != nullptr ? byte_at(conv.w_signed, w_zeros, conv.w_zero_by_channel ? o : 0) : 0;
        std::int64_t sum = 0;
        each_point(p.taps, [&](const Point& tap) {
          const Point from = p.from(to, tap);
          if (!from.is_in(p.in)) return;
          for (std::int64_t c = 0; c < p.cg; ++c) {
            sum += (byte_at(conv.x_signed, b.inputs[0], p.x_at(n, from) + o / p.og * p.cg + c) - x_zero) *
                   (byte_at(conv.w_signed, b.inputs[1], p.w_at(o, tap) + c) - w_zero);
          }
        });
        b.out<std::int32_t>(0)[p.y_at(n, to) + o] = static_cast<std::int32_t>(sum);
      }
    });
  }
}

Prepared conv_ref_of_bytes(const OpCall& call) {
  return function_kernel([conv = byte_conv(call)](const Buffers& b) { run(conv, b); });
}

constexpr KernelEntry kMatmul[] = {{"cuda", DeviceKind::kCuda, matmul_integer_cuda},
                                   {"ref", DeviceKind::kCpu, matmul_ref_of_bytes}};
constexpr KernelEntry kConv[] = {{"cuda", DeviceKind::kCuda, conv_integer_cuda},
                                 {"ref", DeviceKind::kCpu, conv_ref_of_bytes}};

}  // namespace

ByteOperand byte_operand(const OpCall& call, std::size_t operand) {
  ByteOperand o{.is_signed = call.in(operand).dtype == DType::kI8, .has_zero = call.has(operand + 2)};
  if (o.has_zero) o.plan = broadcast_plan(call.shape(operand), {zero_shape(call, operand)});
  return o;
}

ByteConv byte_conv(const OpCall& call) {
  return {.s = conv_shape(call.shape(0), call.shape(1), call.outputs[0].shape, call.attrs),
          .x_signed = call.in(0).dtype == DType::kI8,
          .w_signed = call.in(1).dtype == DType::kI8,
          .w_zero_by_channel = call.has(3) && call.in(3).elements() > 1};
}

extern constinit const OpDef matmul_integer = {
    .name = "matmul_integer", .infer = infer_matmul, .kernels = kMatmul, .kernel_count = std::size(kMatmul)};
extern constinit const OpDef conv_integer = {
    .name = "conv_integer", .infer = infer_conv, .kernels = kConv, .kernel_count = std::size(kConv)};

}  // namespace neap::ops
