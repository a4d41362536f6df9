// scatter_elements(data, indices, updates?; axis = 0, reduction = none) and scatter_nd(data, indices, updates?;
// reduction = none), as in ONNX: a copy of data in which the elements (slices) that the indices name are replaced by
// updates, or combined with them (add, mul, max, min). Without updates they become zero. Of several updates to one
// place the last one stays; the gradient takes it that each place is named once unless they are added.
#include <algorithm>
#include <cstring>

#include "ops/gather/positions_cuda.h"
#include "ops/kernel.h"
#include "ops/matmul/checks.h"
#include "ops/shape_util/axes.h"

namespace neap::ops {
namespace {

Combine combine_of(const OpCall& call) {
  const std::string text = call.attrs.text("reduction", "none");
  if (text == "none") return Combine::kReplace;
  if (text == "add") return Combine::kAdd;
  if (text == "mul") return Combine::kMultiply;
  if (text == "max") return Combine::kLargest;
  if (text == "min") return Combine::kSmallest;
  throw UserError("reduction must be none, add, mul, max or min, not " + text);
}

int axis_in(const OpCall& call) { return axis_of(call.attrs.integer("axis", 0), call.shape(0).rank()); }

void check(const OpCall& call, const Shape& updates) {
  need_index(call, 1);
  const DType type = movable(call.in(0)).dtype;
  need(combine_of(call) == Combine::kReplace || is_number(type), "only numbers can be combined");
  if (!call.has(2)) return need(combine_of(call) == Combine::kReplace, "updates are missing");
  need(call.in(2).dtype == type, "updates must have the type of data");
  need_same_shape(call.shape(2), updates, "the updates do not fit the indices");
}

Types infer_elements(const OpCall& call) {
  check_element_shapes(call.shape(0), call.shape(1), axis_in(call));
  check(call, call.shape(1));
  return {call.in(0)};
}

Types infer_nd(const OpCall& call) {
  check_slice_shapes(call.shape(0), call.shape(1), 0);
  check(call, slices_shape(call.shape(0), call.shape(1), 0));
  return {call.in(0)};
}

Values gradient(GradientCall& c) {
  const std::string reduction = c.node.attrs.text("reduction", "none");
  if (reduction != "none" && reduction != "add") throw UserError("there is no gradient with reduction " + reduction);
  const bool by_element = c.node.op->name == "scatter_elements";
  Attrs attrs;
  if (c.node.attrs.has("axis")) attrs.set("axis", c.node.attrs.integer("axis"));
  Values dx(c.node.inputs.size());
  if (c.wants(2)) dx[2] = c.g(by_element ? "gather_elements" : "gather_nd", {c.dy[0], c.x(1)}, attrs);
  if (c.wants(0)) dx[0] = reduction == "add" ? c.dy[0] : c.g(c.node.op->name, {c.dy[0], c.x(1)}, attrs);
  return dx;
}

struct Scatter {
  Positions positions;
  Combine how;
  DType type;
  std::int64_t bytes;  // of data

  // Entry t, whose element is `at`.
  void put(const std::byte* updates, std::byte* out, std::int64_t t, std::int64_t at) const {
    const std::int64_t n = positions.slice;
    const std::int64_t size = byte_size(type, 1);
    std::byte* to = out + at * size;
    if (updates == nullptr) {
      std::memset(to, 0, static_cast<std::size_t>(n * size));
      return;
    }
    const std::byte* from = updates + t * n * size;
    if (how == Combine::kReplace) {
      std::memcpy(to, from, static_cast<std::size_t>(n * size));
    } else {
      with_type(type, [&]<class T>(Type<T>) {
        for (std::int64_t i = 0; i < n; ++i) {
          T& there = reinterpret_cast<T*>(to)[i];
          there = combined(how, there, reinterpret_cast<const T*>(from)[i]);
        }
      });
    }
  }
};

// One thread: the order of updates to one place is part of the result.
Prepared scatter(const OpCall& call, Positions positions) {
  const Scatter scatter{.positions = std::move(positions),
                        .how = combine_of(call),
                        .type = call.in(0).dtype,
                        .bytes = call.in(0).bytes()};
  return function_kernel([s = scatter](const Buffers& b) {
    const void* indices = b.in<void>(1);
    s.positions.check(indices);
    auto* out = b.out<std::byte>(0);
    if (s.bytes == 0 || out == nullptr) return;
    if (out != b.in<std::byte>(0)) std::memcpy(out, b.in<std::byte>(0), static_cast<std::size_t>(s.bytes));
    for (std::int64_t t = 0; t < s.positions.count; ++t) {
      s.put(b.in<std::byte>(2), out, t, s.positions.at(indices, t));
    }
  });
}

Prepared elements_cuda(const OpCall& call) {
  if (call.in(0).dtype != DType::kF32) return Declined{"f32 only"};
  if (scatter_elements_cuda == nullptr) return not_linked();
  return scatter_elements_cuda(element_positions("scatter_elements", call.shape(0), call.in(1), axis_in(call)),
                               call.shape(1).sizes(), call.in(0).elements(), combine_of(call));
}

Prepared elements_ref(const OpCall& call) {
  return scatter(call, element_positions("scatter_elements", call.shape(0), call.in(1), axis_in(call)));
}

Prepared nd_cuda(const OpCall& call) {
  if (scatter_slices_cuda == nullptr) return not_linked();
  return scatter_slices_cuda(slice_positions("scatter_nd", call.shape(0), call.in(1), 0), call.in(0), combine_of(call));
}

Prepared nd_ref(const OpCall& call) {
  return scatter(call, slice_positions("scatter_nd", call.shape(0), call.in(1), 0));
}

constexpr KernelEntry kElements[] = {{"cuda", DeviceKind::kCuda, elements_cuda},
                                     {"ref", DeviceKind::kCpu, elements_ref}};
constexpr KernelEntry kNd[] = {{"cuda", DeviceKind::kCuda, nd_cuda}, {"ref", DeviceKind::kCpu, nd_ref}};
constexpr InOut kInPlace[] = {{0, 0}};

}  // namespace

extern constinit const OpDef scatter_elements = {.name = "scatter_elements",
                                                 .infer = infer_elements,
                                                 .gradient = gradient,
                                                 .kernels = kElements,
                                                 .kernel_count = std::size(kElements),
                                                 .in_place = kInPlace};
extern constinit const OpDef scatter_nd = {.name = "scatter_nd",
                                           .infer = infer_nd,
                                           .gradient = gradient,
                                           .kernels = kNd,
                                           .kernel_count = std::size(kNd),
                                           .in_place = kInPlace};

}  // namespace neap::ops
