// gather_elements(data, indices; axis = 0) and gather_nd(data, indices; batch_dims = 0), as in ONNX, and their
// gradients (indices, dy; shape, ...): zeros with dy added, in the order of the indices.
#include <algorithm>
#include <cstring>

#include "ops/gather/positions_cuda.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

int axis_in(const OpCall& call, const Shape& data) { return axis_of(call.attrs.integer("axis", 0), data.rank()); }
std::int64_t batch_dims(const OpCall& call) { return call.attrs.integer("batch_dims", 0); }

Types infer_elements(const OpCall& call) {
  need_index(call, 1);
  const TensorType& data = movable(call.in(0));
  check_element_shapes(data.shape, call.shape(1), axis_in(call, data.shape));
  return {{data.dtype, call.shape(1)}};
}

Types infer_elements_grad(const OpCall& call) {
  need_index(call, 0);
  need_f32(call, 1);
  const Shape shape = call.attrs.shape("shape");
  check_element_shapes(shape, call.shape(0), axis_in(call, shape));
  need_same_shape(call.shape(1), call.shape(0), "the output's gradient must have the shape of the indices");
  return {{DType::kF32, shape}};
}

Types infer_nd(const OpCall& call) {
  need_index(call, 1);
  const TensorType& data = movable(call.in(0));
  check_slice_shapes(data.shape, call.shape(1), batch_dims(call));
  return {{data.dtype, slices_shape(data.shape, call.shape(1), batch_dims(call))}};
}

Types infer_nd_grad(const OpCall& call) {
  need_index(call, 0);
  need_f32(call, 1);
  const Shape shape = call.attrs.shape("shape");
  check_slice_shapes(shape, call.shape(0), batch_dims(call));
  need_same_shape(call.shape(1), slices_shape(shape, call.shape(0), batch_dims(call)),
                  "the output's gradient must have its shape");
  return {{DType::kF32, shape}};
}

Values gradient(GradientCall& c) {
  const std::string name(c.node.op->name);
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of " + name));
  return {c.g(name + "_grad", {c.x(1), c.dy[0]}, attrs), Value{}};
}

Prepared pick(const Positions& positions, std::int64_t element_bytes) {
  return function_kernel([p = positions, element_bytes](const Buffers& b) {
    p.check(b.in<void>(1));
    const auto bytes = static_cast<std::size_t>(p.slice * element_bytes);
    if (bytes == 0) return;
#pragma omp parallel for schedule(static)
    for (std::int64_t t = 0; t < p.count; ++t) {
      std::memcpy(b.out<std::byte>(0) + static_cast<std::size_t>(t) * bytes,
                  b.in<std::byte>(0) + p.at(b.in<void>(1), t) * element_bytes, bytes);
    }
  });
}

// One thread: entries may point to the same element, and the order of additions is part of the result.
Prepared add(const Positions& positions, std::int64_t elements) {
  return function_kernel([p = positions, elements](const Buffers& b) {
    p.check(b.in<void>(0));
    auto* out = b.out<float>(0);
    std::fill(out, out + elements, 0.0F);
    for (std::int64_t t = 0; t < p.count; ++t) {
      float* to = out + p.at(b.in<void>(0), t);
      for (std::int64_t i = 0; i < p.slice; ++i) to[i] += b.in<float>(1)[t * p.slice + i];
    }
  });
}

Prepared elements_cuda(const OpCall& call) {
  if (pick_positions_cuda == nullptr) return not_linked();
  const TensorType& data = call.in(0);
  return pick_positions_cuda(element_positions("gather_elements", data.shape, call.in(1), axis_in(call, data.shape)),
                             byte_size(data.dtype, 1));
}

Prepared elements_grad_cuda(const OpCall& call) {
  if (add_elements_cuda == nullptr) return not_linked();
  const Shape shape = call.attrs.shape("shape");
  return add_elements_cuda(element_positions("gather_elements", shape, call.in(0), axis_in(call, shape)),
                           call.shape(0).sizes(), shape.count());
}

Prepared nd_cuda(const OpCall& call) {
  if (pick_positions_cuda == nullptr) return not_linked();
  const TensorType& data = call.in(0);
  return pick_positions_cuda(slice_positions("gather_nd", data.shape, call.in(1), batch_dims(call)),
                             byte_size(data.dtype, 1));
}

Prepared nd_grad_cuda(const OpCall& call) {
  if (add_slices_cuda == nullptr) return not_linked();
  const Shape shape = call.attrs.shape("shape");
  return add_slices_cuda(slice_positions("gather_nd", shape, call.in(0), batch_dims(call)), shape.count());
}

Prepared elements_ref(const OpCall& call) {
  const TensorType& data = call.in(0);
  return pick(element_positions("gather_elements", data.shape, call.in(1), axis_in(call, data.shape)),
              byte_size(data.dtype, 1));
}

Prepared elements_grad_ref(const OpCall& call) {
  const Shape shape = call.attrs.shape("shape");
  return add(element_positions("gather_elements", shape, call.in(0), axis_in(call, shape)), shape.count());
}

Prepared nd_ref(const OpCall& call) {
  const TensorType& data = call.in(0);
  return pick(slice_positions("gather_nd", data.shape, call.in(1), batch_dims(call)), byte_size(data.dtype, 1));
}

Prepared nd_grad_ref(const OpCall& call) {
  const Shape shape = call.attrs.shape("shape");
  return add(slice_positions("gather_nd", shape, call.in(0), batch_dims(call)), shape.count());
}

double no_flops(const OpCall& /*call*/) { return 0; }

constexpr KernelEntry kElements[] = {{"cuda", DeviceKind::kCuda, elements_cuda},
                                     {"ref", DeviceKind::kCpu, elements_ref}};
constexpr KernelEntry kElementsGrad[] = {{"cuda", DeviceKind::kCuda, elements_grad_cuda},
                                         {"ref", DeviceKind::kCpu, elements_grad_ref}};
constexpr KernelEntry kNd[] = {{"cuda", DeviceKind::kCuda, nd_cuda}, {"ref", DeviceKind::kCpu, nd_ref}};
constexpr KernelEntry kNdGrad[] = {{"cuda", DeviceKind::kCuda, nd_grad_cuda}, {"ref", DeviceKind::kCpu, nd_grad_ref}};

}  // namespace

extern constinit const OpDef gather_elements = {.name = "gather_elements",
                                                .infer = infer_elements,
                                                .gradient = gradient,
                                                .kernels = kElements,
                                                .kernel_count = std::size(kElements),
                                                .flops = no_flops,
                                                .cheap = true};
extern constinit const OpDef gather_elements_grad = {.name = "gather_elements_grad",
                                                     .infer = infer_elements_grad,
                                                     .kernels = kElementsGrad,
                                                     .kernel_count = std::size(kElementsGrad)};
extern constinit const OpDef gather_nd = {.name = "gather_nd",
                                          .infer = infer_nd,
                                          .gradient = gradient,
                                          .kernels = kNd,
                                          .kernel_count = std::size(kNd),
                                          .flops = no_flops,
                                          .cheap = true};
extern constinit const OpDef gather_nd_grad = {
    .name = "gather_nd_grad", .infer = infer_nd_grad, .kernels = kNdGrad, .kernel_count = std::size(kNdGrad)};

}  // namespace neap::ops
