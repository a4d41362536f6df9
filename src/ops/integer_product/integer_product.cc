// matmul_integer(a, b, a_zero?, b_zero?) -> i32: (a - a_zero) (b - b_zero) by numpy's rule for vectors and batches; a
// and b are u8 or i8. A zero point is a scalar or [1]; that of a also [M] or [..., M, 1] (one a row), that of b also
// [N] or [..., 1, N] (one a column).
//
// conv_integer(x [N, (D, H,) W, C], weight [O, (KD, KH,) KW, C / groups], x_zero?, w_zero?; strides, pads, dilations,
// groups) -> i32 [N, ..., O]: the convolution of x - x_zero with weight - w_zero; x_zero is a scalar or [1], w_zero may
// be [O] as well.
#include "ops/conv/conv_points.h"
#include "ops/elementwise/broadcast.h"
#include "ops/elementwise/broadcast_offsets.h"
#include "ops/elementwise/element.h"
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

// One operand of a product: element i less its zero point.
struct Operand {
  DType type = DType::kU8;
  bool has_zero = false;
  std::size_t input = 0;
  BroadcastPlan plan;

  Operand(const OpCall& call, std::size_t operand)
      : type(call.in(operand).dtype), has_zero(call.has(operand + 2)), input(operand) {
    if (has_zero) plan = broadcast_plan(call.shape(operand), {zero_shape(call, operand)});
  }
  std::int64_t at(const Buffers& b, std::int64_t i) const {
    const std::int64_t zero = has_zero ? integer_at(type, b.inputs[input + 2], broadcast_offsets(plan, i)[0]) : 0;
    return integer_at(type, b.inputs[input], i) - zero;
  }
};

Prepared matmul_ref_of_bytes(const OpCall& call) {
  return function_kernel([p = matmul_plan(call), x = Operand(call, 0), y = Operand(call, 1)](const Buffers& buffers) {
    const Matrix a = dense_matrix(p.m, p.k, false);
    const Matrix b = dense_matrix(p.k, p.n, false);
    auto* out = buffers.out<std::int32_t>(0);
    for (std::int64_t t = 0; t < p.batches(); ++t) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          std::int64_t sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            sum += x.at(buffers, p.a_offset(t) + i * a.row + l * a.column) *
                   y.at(buffers, p.b_offset(t) + l * b.row + j * b.column);
          }
          *out++ = static_cast<std::int32_t>(sum);
        }
      }
    }
  });
}

struct ByteConv {
  ConvShape s;
  DType x_type, w_type;
  bool has_x_zero, has_w_zero, w_zero_by_channel;

  void run(const Buffers& b) const {
    const ConvPoints p{s};
    const std::int64_t x_zero = has_x_zero ? integer_at(x_type, b.inputs[2], 0) : 0;
    for (std::int64_t n = 0; n < s.n; ++n) {
      each_point(p.out, [&](const Point& to) {
        for (std::int64_t o = 0; o < s.o; ++o) {
          const std::int64_t w_zero = has_w_zero ? integer_at(w_type, b.inputs[3], w_zero_by_channel ? o : 0) : 0;
          std::int64_t sum = 0;
          each_point(p.taps, [&](const Point& tap) {
            const Point from = p.from(to, tap);
            if (!from.is_in(p.in)) return;
            for (std::int64_t c = 0; c < p.cg; ++c) {
              sum += (integer_at(x_type, b.inputs[0], p.x_at(n, from) + o / p.og * p.cg + c) - x_zero) *
                     (integer_at(w_type, b.inputs[1], p.w_at(o, tap) + c) - w_zero);
            }
          });
          b.out<std::int32_t>(0)[p.y_at(n, to) + o] = static_cast<std::int32_t>(sum);
        }
      });
    }
  }
};

Prepared conv_ref_of_bytes(const OpCall& call) {
  const ByteConv conv{.s = conv_shape(call.shape(0), call.shape(1), call.outputs[0].shape, call.attrs),
                      .x_type = call.in(0).dtype,
                      .w_type = call.in(1).dtype,
                      .has_x_zero = call.has(2),
                      .has_w_zero = call.has(3),
                      .w_zero_by_channel = call.has(3) && call.in(3).elements() > 1};
  return function_kernel([conv](const Buffers& b) { conv.run(b); });
}

constexpr KernelEntry kMatmul[] = {{"ref", DeviceKind::kCpu, matmul_ref_of_bytes}};
constexpr KernelEntry kConv[] = {{"ref", DeviceKind::kCpu, conv_ref_of_bytes}};

}  // namespace

extern constinit const OpDef matmul_integer = {
    .name = "matmul_integer", .infer = infer_matmul, .kernels = kMatmul, .kernel_count = 1};
extern constinit const OpDef conv_integer = {
    .name = "conv_integer", .infer = infer_conv, .kernels = kConv, .kernel_count = 1};

}  // namespace neap::ops
