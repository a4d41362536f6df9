// not, is_nan, is_inf (bool results), and identity, which is a view.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "neap/error.h"
#include "ops/binary/logical.h"
#include "ops/elementwise/element.h"
#include "ops/kernel.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

Types infer_not(const OpCall& call) {
  if (call.in(0).dtype != DType::kBool) throw UserError(fmt::format("takes bool, not {}", name(call.in(0).dtype)));
  return {call.in(0)};
}

Types infer_test(const OpCall& call) {
  if (!is_float(call.in(0).dtype)) throw UserError(fmt::format("takes floats, not {}", name(call.in(0).dtype)));
  return {{DType::kBool, call.shape(0)}};
}

Prepared not_ref(const OpCall& call) {
  return function_kernel([n = call.in(0).elements()](const Buffers& b) {
    for (std::int64_t i = 0; i < n; ++i) b.out<std::uint8_t>(0)[i] = b.in<std::uint8_t>(0)[i] == 0 ? 1 : 0;
  });
}

template <class F>
Prepared test_kernel(const TensorType& x, F holds) {
  return with_float(x.dtype, [&]<class T>(Type<T>) {
    return function_kernel([n = x.elements(), holds](const Buffers& b) {
      for (std::int64_t i = 0; i < n; ++i)
        b.out<std::uint8_t>(0)[i] = holds(static_cast<double>(b.in<T>(0)[i])) ? 1 : 0;
    });
  });
}

Prepared is_nan_ref(const OpCall& call) {
  return test_kernel(call.in(0), [](double x) { return std::isnan(x); });
}

Prepared is_inf_ref(const OpCall& call) {
  const bool positive = call.attrs.integer("detect_positive", 1) != 0;
  const bool negative = call.attrs.integer("detect_negative", 1) != 0;
  return test_kernel(
      call.in(0), [positive, negative](double x) { return std::isinf(x) && (std::signbit(x) ? negative : positive); });
}

Prepared copy_ref(const OpCall& call) {
  return function_kernel([bytes = static_cast<std::size_t>(call.in(0).bytes())](const Buffers& b) {
    std::memmove(b.out<std::byte>(0), b.in<std::byte>(0), bytes);
  });
}

constexpr KernelEntry kCopy[] = {{"cuda", DeviceKind::kCuda, copy_whole_cuda}, {"ref", DeviceKind::kCpu, copy_ref}};
constexpr KernelEntry kNot[] = {{"cuda", DeviceKind::kCuda, predicate_cuda}, {"ref", DeviceKind::kCpu, not_ref}};
constexpr KernelEntry kIsNan[] = {{"cuda", DeviceKind::kCuda, predicate_cuda}, {"ref", DeviceKind::kCpu, is_nan_ref}};
constexpr KernelEntry kIsInf[] = {{"cuda", DeviceKind::kCuda, predicate_cuda}, {"ref", DeviceKind::kCpu, is_inf_ref}};
constexpr InOut kInPlace[] = {{0, 0}};

std::optional<std::int64_t> at_start(const OpCall& /*call*/) { return 0; }
Values pass_on(GradientCall& c) { return {c.dy[0]}; }

}  // namespace

extern constinit const OpDef logical_not = {.name = "not",
                                            .infer = infer_not,
                                            .kernels = kNot,
                                            .kernel_count = std::size(kNot),
                                            .in_place = kInPlace,
                                            .cheap = true,
                                            .elementwise = true};

extern constinit const OpDef is_nan = {.name = "is_nan",
                                       .infer = infer_test,
                                       .kernels = kIsNan,
                                       .kernel_count = std::size(kIsNan),
                                       .cheap = true,
                                       .elementwise = true};

extern constinit const OpDef is_inf = {.name = "is_inf",
                                       .infer = infer_test,
                                       .kernels = kIsInf,
                                       .kernel_count = std::size(kIsInf),
                                       .cheap = true,
                                       .elementwise = true};

extern constinit const OpDef identity = {.name = "identity",
                                         .infer = same_as_first,
                                         .gradient = pass_on,
                                         .kernels = kCopy,
                                         .kernel_count = std::size(kCopy),
                                         .in_place = kInPlace,
                                         .view_offset = at_start,
                                         .cheap = true,
                                         .elementwise = true};

}  // namespace neap::ops
