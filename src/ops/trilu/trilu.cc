// trilu(x [..., rows, columns]; upper = 1, k = 0) -> y: the elements on and above diagonal k (upper), or on and below
// it, zeros elsewhere. Any type but bits.
#include <cstring>

#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/lines_cuda.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  need(movable(call.in(0)).shape.rank() >= 2, "takes matrices");
  return {call.in(0)};
}

Values gradient(GradientCall& c) { return {c.g("trilu", {c.dy[0]}, c.node.attrs)}; }

struct Triangle {
  std::int64_t columns, k, element;
  bool upper;

  // Columns [0, cut) are before the diagonal; of the lower triangle the diagonal itself is before the cut.
  void copy_row(const std::byte* x, std::byte* y, std::int64_t row) const {
    const std::int64_t cut = std::clamp<std::int64_t>(row + k + (upper ? 0 : 1), 0, columns);
    const auto before = static_cast<std::size_t>(cut * element);
    const auto behind = static_cast<std::size_t>((columns - cut) * element);
    if (upper) {
      std::memset(y, 0, before);
      std::memmove(y + before, x + before, behind);
    } else {
      std::memmove(y, x, before);
      std::memset(y + before, 0, behind);
    }
  }
};

std::int64_t diagonal(const OpCall& call) {
  return std::clamp<std::int64_t>(call.attrs.integer("k", 0), -(std::int64_t{1} << 40), std::int64_t{1} << 40);
}

Prepared cuda(const OpCall& call) {
  const Shape& shape = call.shape(0);
  return trilu_cuda != nullptr ? trilu_cuda(call.in(0).elements(), shape.size(-2), shape.size(-1), diagonal(call),
                                            call.attrs.integer("upper", 1) != 0, byte_size(call.in(0).dtype, 1))
                               : not_linked();
}

Prepared ref(const OpCall& call) {
  const Shape& shape = call.shape(0);
  const std::int64_t bytes = byte_size(call.in(0).dtype, shape.size(-1));
  const Triangle t{.columns = shape.size(-1),
                   .k = diagonal(call),
                   .element = byte_size(call.in(0).dtype, 1),
                   .upper = call.attrs.integer("upper", 1) != 0};
  const std::int64_t rows = bytes == 0 ? 0 : call.in(0).bytes() / bytes;
  return function_kernel([t, rows, matrix = shape.size(-2), bytes](const Buffers& b) {
    for (std::int64_t r = 0; r < rows; ++r) t.copy_row(b.inputs[0] + r * bytes, b.outputs[0] + r * bytes, r % matrix);
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef trilu = {.name = "trilu",
                                      .infer = infer,
                                      .gradient = gradient,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .in_place = kInPlace,
                                      .cheap = true};

}  // namespace neap::ops
