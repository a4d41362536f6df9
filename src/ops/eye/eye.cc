// eye(; shape = [rows, columns], k = 0, dtype = f32) -> 1 on diagonal k (above the main one when positive), else 0; any
// type but bits.
#include "ops/eye/eye.h"

#include <cstring>

#include "ops/elementwise/element.h"
#include "ops/matmul/checks.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const std::string text = call.attrs.text("dtype", "f32");
  const auto type = parse_dtype(text);
  if (!type || *type == DType::kBits) throw UserError(fmt::format("cannot make the type \"{}\"", text));
  const Shape shape = call.attrs.shape("shape");
  need(shape.rank() == 2, "shape must have two axes");
  return {{*type, shape}};
}

Prepared cuda(const OpCall& call) {
  if (eye_cuda == nullptr) return not_linked();
  const TensorType& type = call.outputs[0];
  EyeShape eye{.rows = type.shape.size(0),
               .columns = type.shape.size(1),
               .k = call.attrs.integer("k", 0),
               .one = 0,
               .bytes = byte_size(type.dtype, 1)};
  set_real(type.dtype, &eye.one, 0, 1);
  return eye_cuda(eye);
}

Prepared ref(const OpCall& call) {
  const TensorType& type = call.outputs[0];
  return function_kernel([dtype = type.dtype, bytes = type.bytes(), rows = type.shape.size(0),
                          columns = type.shape.size(1), k = call.attrs.integer("k", 0)](const Buffers& b) {
    std::memset(b.outputs[0], 0, static_cast<std::size_t>(bytes));
    for (std::int64_t r = 0; r < rows; ++r) {
      const bool has_one = k >= -r && k < columns - r;
      if (has_one) set_real(dtype, b.outputs[0], r * columns + r + k, 1);
    }
  });
}

constexpr KernelEntry kKernels[] = {{"cuda", DeviceKind::kCuda, cuda}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef eye = {
    .name = "eye", .infer = infer, .kernels = kKernels, .kernel_count = std::size(kKernels), .cheap = true};

}  // namespace neap::ops
