// cast(x; to): any type to any other. Floats are rounded to nearest even; a float becomes an integer by cutting its
// fraction, held within the integer's range, NaN as 0; integers wrap around; bool and bits say whether x is not 0.
#include "ops/cast/cast.h"

#include <fmt/format.h>

#include "neap/error.h"
#include "ops/cast/cast_simd.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const std::string to = call.attrs.text("to", "");
  const auto type = parse_dtype(to);
  if (!type) throw UserError(fmt::format("attribute 'to' names no type: \"{}\"", to));
  return {{*type, call.shape(0)}};
}

Values gradient(GradientCall& c) {
  if (!is_float(c.g.type(c.y(0)).dtype)) return {Value{}};
  return {c.g("cast", {c.dy[0]}, {{"to", std::string(name(c.g.type(c.x(0)).dtype))}})};
}

std::optional<std::int64_t> same_type(const OpCall& call) {
  if (infer(call)[0].dtype == call.in(0).dtype) return 0;
  return std::nullopt;
}

CastTable::Run function_for(DType from, DType to) {
  const CastTable& t = cast_table();
  if (from == DType::kF32) return to == DType::kF16 ? t.f32_to_f16 : to == DType::kBF16 ? t.f32_to_bf16 : nullptr;
  if (to != DType::kF32) return nullptr;
  switch (from) {
    case DType::kF16: return t.f16_to_f32;
    case DType::kBF16: return t.bf16_to_f32;
    case DType::kU8: return t.u8_to_f32;
    case DType::kI32: return t.i32_to_f32;
    case DType::kI64: return t.i64_to_f32;
    case DType::kBool: return t.bool_to_f32;
    default: return nullptr;
  }
}

Prepared simd(const OpCall& call) {
  const CastTable::Run run = function_for(call.in(0).dtype, call.outputs[0].dtype);
  if (run == nullptr) return Declined{"not this pair of types"};
  return function_kernel(
      [run, n = call.in(0).elements()](const Buffers& b) { run(b.in<std::byte>(0), b.out<std::byte>(0), n); });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cast_cuda, true},
                                    {"simd", DeviceKind::kCpu, simd, true},
                                    {"ref", DeviceKind::kCpu, cast_ref, true}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef cast = {.name = "cast",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .kernels = kKernels,
                                     .kernel_count = std::size(kKernels),
                                     .in_place = kInPlace,
                                     .view_offset = same_type,
                                     .cheap = true,
                                     .elementwise = true};

}  // namespace neap::ops
