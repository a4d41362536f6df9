// Tensors from nothing: fill(; shape, value, dtype), ones_like(x), zeros_like(x), and range(; shape, start, delta,
// dtype), whose element i is start + i * delta. Any type but bits (f32 when not told).
#include "ops/fill/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/error.h"
#include "ops/elementwise/element.h"

namespace neap::ops {
namespace {

DType dtype_of(const Attrs& attrs) {
  const std::string text = attrs.text("dtype", "f32");
  const auto type = parse_dtype(text);
  if (!type) throw UserError(fmt::format("attribute 'dtype' names no type: \"{}\"", text));
  return *type;
}

void check_type(DType type) {
  if (type == DType::kBits) throw UserError("cannot make elements of one bit; cast a bool");
}

// Integers up to 2^53 come through a double unchanged.
void check_value(DType type, double value) {
  if (is_float(type) || type == DType::kBool) return;
  const bool fits = with_type(type, [&]<class T>(Type<T>) {
    const double low = std::max(-0x1p53, static_cast<double>(std::numeric_limits<T>::min()));
    const double high = std::min(0x1p53, static_cast<double>(std::numeric_limits<T>::max()));
    return value >= low && value <= high && value == std::trunc(value);
  });
  if (!fits) throw UserError(fmt::format("{} is no value of {}", value, name(type)));
}

Types infer_fill(const OpCall& call) {
  const DType type = dtype_of(call.attrs);
  check_type(type);
  check_value(type, call.attrs.real("value", 0));
  return {{type, call.attrs.shape("shape")}};
}

Types infer_range(const OpCall& call) {
  const DType type = dtype_of(call.attrs);
  check_type(type);
  const Shape shape = call.attrs.shape("shape");
  if (shape.rank() != 1) throw UserError(fmt::format("a range has one axis, not {}", shape.text()));
  const double start = call.attrs.real("start", 0);
  const double delta = call.attrs.real("delta", 1);
  check_value(type, start);
  if (shape.is_static() && shape.count() > 0) {
    if (shape.count() > 1) check_value(type, start + delta);
    check_value(type, start + delta * static_cast<double>(shape.count() - 1));
  }
  return {{type, shape}};
}

Types infer_like(const OpCall& call) {
  check_type(call.in(0).dtype);
  return {call.in(0)};
}

// One line an element, for tensors of any size: the compiler makes it vectors.
template <class T>
void fill_with(std::byte* dst, std::int64_t n, double start, double delta) {
  T* y = reinterpret_cast<T*>(dst);
  if (delta == 0) {
    const T value = static_cast<T>(start);
    for (std::int64_t i = 0; i < n; ++i) y[i] = value;
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(start + static_cast<double>(i) * delta);
  }
}

Prepared ramp(const TensorType& type, double start, double delta) {
  return function_kernel([dtype = type.dtype, n = type.elements(), start, delta](const Buffers& b) {
    std::byte* y = b.out<std::byte>(0);
    if (dtype == DType::kBool) return fill_with<std::uint8_t>(y, n, start != 0 ? 1 : 0, delta);
    with_type(dtype, [&]<class T>(Type<T>) { fill_with<T>(y, n, start, delta); });
  });
}

Prepared fill_ref(const OpCall& call) { return ramp(call.outputs[0], call.attrs.real("value", 0), 0); }
Prepared ones_ref(const OpCall& call) { return ramp(call.outputs[0], 1, 0); }
Prepared zeros_ref(const OpCall& call) { return ramp(call.outputs[0], 0, 0); }
Prepared range_ref(const OpCall& call) {
  return ramp(call.outputs[0], call.attrs.real("start", 0), call.attrs.real("delta", 1));
}

Prepared cuda(const TensorType& type, double start, double delta) {
  return ramp_cuda != nullptr ? ramp_cuda(type, start, delta) : not_linked();
}
Prepared fill_cuda(const OpCall& call) { return cuda(call.outputs[0], call.attrs.real("value", 0), 0); }
Prepared ones_cuda(const OpCall& call) { return cuda(call.outputs[0], 1, 0); }
Prepared zeros_cuda(const OpCall& call) { return cuda(call.outputs[0], 0, 0); }
Prepared range_cuda(const OpCall& call) {
  return cuda(call.outputs[0], call.attrs.real("start", 0), call.attrs.real("delta", 1));
}

double no_flops(const OpCall& /*call*/) { return 0; }
double bytes_written(const OpCall& call) { return static_cast<double>(call.outputs[0].bytes()); }
Values nothing_flows(GradientCall& /*c*/) { return {Value{}}; }

constexpr KernelEntry kFill[] = {{"cuda", DeviceKind::kCuda, fill_cuda}, {"ref", DeviceKind::kCpu, fill_ref}};
constexpr KernelEntry kOnes[] = {{"cuda", DeviceKind::kCuda, ones_cuda}, {"ref", DeviceKind::kCpu, ones_ref}};
constexpr KernelEntry kZeros[] = {{"cuda", DeviceKind::kCuda, zeros_cuda}, {"ref", DeviceKind::kCpu, zeros_ref}};
constexpr KernelEntry kRange[] = {{"cuda", DeviceKind::kCuda, range_cuda}, {"ref", DeviceKind::kCpu, range_ref}};
constexpr InOut kInPlace[] = {{0, 0}};

constexpr OpDef source(std::string_view name, Types (*infer)(const OpCall&), const KernelEntry (&kernel)[2]) {
  return {.name = name,
          .infer = infer,
          .kernels = kernel,
          .kernel_count = 2,
          .flops = no_flops,
          .traffic = bytes_written,
          .cheap = true,
          .elementwise = true};
}

constexpr OpDef like(std::string_view name, const KernelEntry (&kernel)[2]) {
  OpDef op = source(name, infer_like, kernel);
  op.gradient = nothing_flows;
  op.in_place = kInPlace;
  return op;
}

}  // namespace

extern constinit const OpDef fill = source("fill", infer_fill, kFill);
extern constinit const OpDef range = source("range", infer_range, kRange);
extern constinit const OpDef ones_like = like("ones_like", kOnes);
extern constinit const OpDef zeros_like = like("zeros_like", kZeros);

}  // namespace neap::ops
