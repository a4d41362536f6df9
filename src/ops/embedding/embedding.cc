// embedding(table [rows, depth], ids i32 or i64 [...]) -> [..., depth]. An id out of [0, rows) is a UserError.
// embedding_grad(ids, dy; shape) -> gradient of the table, dense; additions run in the order of the ids.
#include "ops/gather/rows.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  need_f32(call, 0);
  need_index(call, 1);
  need(call.shape(0).rank() == 2, "the table must be [rows, depth]");
  Shape out = call.shape(1);
  out.push_back(call.shape(0)[1]);
  return {{DType::kF32, out}};
}

Types infer_grad(const OpCall& call) {
  need_index(call, 0);
  need_f32(call, 1);
  const Shape shape = call.attrs.shape("shape");
  need(shape.rank() == 2, "shape must be [rows, depth]");
  Shape dy = call.shape(0);
  dy.push_back(shape[1]);
  need_same_shape(call.shape(1), dy, "the output's gradient must have a row an id");
  return {{DType::kF32, shape}};
}

Values gradient(GradientCall& c) {
  const Shape shape = known_shape(c.g.shape(c.x(0)), "the gradient of embedding");
  return {c.g("embedding_grad", {c.x(1), c.dy[0]}, {{"shape", shape}}), Value{}};
}

RowPick pick_of(const TensorType& ids, const Shape& table) {
  return {.op = "embedding",
          .shape = {.outer = 1, .axis = table.size(0), .picks = ids.elements(), .inner = table.size(1)},
          .indices = indices_of(ids, table.size(0), false),
          .element_bytes = sizeof(float)};
}

Prepared simd(const OpCall& call) { return pick_rows(pick_of(call.in(1), call.shape(0)), 0, 1); }
Prepared ref(const OpCall& call) { return pick_rows_ref(pick_of(call.in(1), call.shape(0)), 0, 1); }
Prepared simd_grad(const OpCall& call) { return add_rows(pick_of(call.in(0), call.attrs.shape("shape"))); }
Prepared ref_grad(const OpCall& call) { return add_rows_ref(pick_of(call.in(0), call.attrs.shape("shape"))); }

Prepared cuda(const OpCall& call) {
  return pick_rows_cuda != nullptr ? pick_rows_cuda(pick_of(call.in(1), call.shape(0)), 0, 1) : not_linked();
}
Prepared cuda_grad(const OpCall& call) {
  return add_rows_cuda != nullptr ? add_rows_cuda(pick_of(call.in(0), call.attrs.shape("shape"))) : not_linked();
}

double no_flops(const OpCall& /*call*/) { return 0; }
double traffic(const OpCall& call) { return 2.0 * static_cast<double>(call.outputs[0].bytes()); }
double flops_grad(const OpCall& call) { return static_cast<double>(call.in(1).elements()); }

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kBackward[] = {
    {"cuda", DeviceKind::kCuda, cuda_grad}, {"simd", DeviceKind::kCpu, simd_grad}, {"ref", DeviceKind::kCpu, ref_grad}};

}  // namespace

extern constinit const OpDef embedding = {.name = "embedding",
                                          .infer = infer,
                                          .gradient = gradient,
                                          .kernels = kForward,
                                          .kernel_count = std::size(kForward),
                                          .flops = no_flops,
                                          .traffic = traffic,
                                          .cheap = true};

extern constinit const OpDef embedding_grad = {.name = "embedding_grad",
                                               .infer = infer_grad,
                                               .kernels = kBackward,
                                               .kernel_count = std::size(kBackward),
                                               .flops = flops_grad};

}  // namespace neap::ops
