// reverse_sequence(x, lengths; batch_axis = 1, time_axis = 0) -> y: of batch element b the first lengths[b] steps in
// reverse order, the others as they are. lengths is i64 or i32 [batch]; the two axes are 0 and 1, in either order. x is
// of any type but bits.
#include "ops/reverse_sequence/reverse_sequence.h"

#include <cstring>

#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

bool time_is_first(const OpCall& call) {
  const std::int64_t batch = call.attrs.integer("batch_axis", 1);
  const std::int64_t time = call.attrs.integer("time_axis", 0);
  need(batch >= 0 && time >= 0 && batch + time == 1, "batch_axis and time_axis must be 0 and 1, or 1 and 0");
  return time == 0;
}

Types infer(const OpCall& call) {
  need(movable(call.in(0)).shape.rank() >= 2, "takes [time, batch, ...] or [batch, time, ...]");
  need_index(call, 1);
  need_same_shape(call.shape(1), Shape{call.shape(0)[time_is_first(call) ? 1 : 0]}, "one length a batch element");
  return {call.in(0)};
}

// The reversal undoes itself.
Values gradient(GradientCall& c) { return {c.g("reverse_sequence", {c.dy[0], c.x(1)}, c.node.attrs), Value{}}; }

Reversal reversal_of(const OpCall& call) {
  const Shape& x = call.shape(0);
  const bool time_first = time_is_first(call);
  Reversal r{.steps = x.size(time_first ? 0 : 1),
             .batch = x.size(time_first ? 1 : 0),
             .run = 1,
             .time_first = time_first,
             .wide = call.in(1).dtype == DType::kI64};
  for (int i = 2; i < x.rank(); ++i) r.run *= x.size(i);
  return r;
}

void copy(const Reversal& r, std::int64_t bytes, const std::byte* x, const void* lengths, std::byte* y) {
  for (std::int64_t i = 0; i < r.batch; ++i) {
    const std::int64_t length =
        r.wide ? static_cast<const std::int64_t*>(lengths)[i] : static_cast<const std::int32_t*>(lengths)[i];
    if (!r.fits(length)) {
      throw UserError(fmt::format("reverse_sequence: length {} at place {} is outside of [0, {}]", length, i, r.steps));
    }
    for (std::int64_t t = 0; t < r.steps; ++t) {
      std::memcpy(y + r.at(t, i) * bytes, x + r.at(Reversal::source(t, length), i) * bytes,
                  static_cast<std::size_t>(r.run * bytes));
    }
  }
}

Prepared cuda(const OpCall& call) {
  return reverse_sequence_cuda != nullptr ? reverse_sequence_cuda(reversal_of(call), byte_size(call.in(0).dtype, 1))
                                          : not_linked();
}

Prepared ref(const OpCall& call) {
  return function_kernel([r = reversal_of(call), bytes = byte_size(call.in(0).dtype, 1)](const Buffers& b) {
    copy(r, bytes, b.inputs[0], b.inputs[1], b.outputs[0]);
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef reverse_sequence = {.name = "reverse_sequence",
                                                 .infer = infer,
                                                 .gradient = gradient,
                                                 .kernels = kKernels,
                                                 .kernel_count = std::size(kKernels),
                                                 .cheap = true};

}  // namespace neap::ops
