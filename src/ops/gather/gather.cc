// gather(data, indices; axis = 0): indices take the axis's place, as in ONNX; negative ones count from the end.
// gather_grad(indices, dy; axis, shape): zeros with dy's slices added, in the order of the indices.
#include "ops/gather/rows.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

Shape gathered(const Shape& data, const Shape& indices, int axis) {
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(data[i]);
  for (const Dim& d : indices) out.push_back(d);
  for (int i = axis + 1; i < data.rank(); ++i) out.push_back(data[i]);
  return out;
}

int axis_in(const OpCall& call, const Shape& data) { return axis_of(call.attrs.integer("axis", 0), data.rank()); }

Types infer(const OpCall& call) {
  need_index(call, 1);
  const TensorType& data = movable(call.in(0));
  return {{data.dtype, gathered(data.shape, call.shape(1), axis_in(call, data.shape))}};
}

Types infer_grad(const OpCall& call) {
  need_index(call, 0);
  need_f32(call, 1);
  const Shape shape = call.attrs.shape("shape");
  need_same_shape(call.shape(1), gathered(shape, call.shape(0), axis_in(call, shape)),
                  "the output's gradient must have its shape");
  return {{DType::kF32, shape}};
}

Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of gather"));
  return {c.g("gather_grad", {c.x(1), c.dy[0]}, attrs), Value{}};
}

RowPick pick_of(const OpCall& call, const TensorType& data, const TensorType& indices) {
  const int axis = axis_in(call, data.shape);
  PickShape s{.outer = 1, .axis = data.shape.size(axis), .picks = indices.elements(), .inner = 1};
  for (int i = 0; i < axis; ++i) s.outer *= data.shape.size(i);
  for (int i = axis + 1; i < data.shape.rank(); ++i) s.inner *= data.shape.size(i);
  return {
      .op = "gather", .shape = s, .indices = indices_of(indices, s.axis), .element_bytes = byte_size(data.dtype, 1)};
}

RowPick grad_pick_of(const OpCall& call) { return pick_of(call, {DType::kF32, call.attrs.shape("shape")}, call.in(0)); }

Prepared simd(const OpCall& call) { return pick_rows(pick_of(call, call.in(0), call.in(1)), 0, 1); }
Prepared ref(const OpCall& call) { return pick_rows_ref(pick_of(call, call.in(0), call.in(1)), 0, 1); }
Prepared simd_grad(const OpCall& call) { return add_rows(grad_pick_of(call)); }
Prepared ref_grad(const OpCall& call) { return add_rows_ref(grad_pick_of(call)); }

Prepared cuda(const OpCall& call) {
  return pick_rows_cuda != nullptr ? pick_rows_cuda(pick_of(call, call.in(0), call.in(1)), 0, 1) : not_linked();
}
Prepared cuda_grad(const OpCall& call) {
  return add_rows_cuda != nullptr ? add_rows_cuda(grad_pick_of(call)) : not_linked();
}

double no_flops(const OpCall& /*call*/) { return 0; }
double traffic(const OpCall& call) { return 2.0 * static_cast<double>(call.outputs[0].bytes()); }
double flops_grad(const OpCall& call) { return static_cast<double>(call.in(1).elements()); }

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {
    {"cuda", DeviceKind::kCuda, cuda_grad}, {"simd", DeviceKind::kCpu, simd_grad}, {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef gather = {.name = "gather",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kForward,
                                       .kernel_count = std::size(kForward),
                                       .flops = no_flops,
                                       .traffic = traffic,
                                       .cheap = true};

extern constinit const OpDef gather_grad = {.name = "gather_grad",
                                            .infer = infer_grad,
                                            .kernels = kBackward,
                                            .kernel_count = std::size(kBackward),
                                            .flops = flops_grad};

}  // namespace neap::ops
