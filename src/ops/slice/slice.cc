// slice: a part of each axis; a view where that part lies in one piece. slice_grad puts it back among zeros.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"
#include "ops/slice/range.h"

namespace neap::ops {
namespace {

Types infer(const OpCall& call) {
  const TensorType& x = movable(call.in(0));
  return {{x.dtype, sliced(call.attrs, x.shape)}};
}

// What later uses of x have given is added to in place: of many slices of one tensor (a sequence cut into chunks), only
// the last one writes the zeros.
Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  attrs.set("shape", known_shape(c.g.shape(c.x(0)), "the gradient of slice"));
  return {c.g("slice_grad", {c.dy[0], c.take_sum(0)}, attrs)};
}

// slice_grad(dy, sum?) -> dx of "shape": sum, or zeros, plus dy where the slice was taken.
Types infer_grad(const OpCall& call) {
  const Shape shape = call.attrs.shape("shape");
  const TensorType& dy = movable(call.in(0));
  const Shape taken = sliced(call.attrs, shape);
  if (taken.is_static() && dy.shape.is_static() && taken != dy.shape) {
    throw UserError(fmt::format("the slice of {} is {}", shape.text(), taken.text()));
  }
  if (call.has(1) && (dy.dtype != DType::kF32 || call.in(1) != TensorType{dy.dtype, shape})) {
    throw UserError(fmt::format("the sum must be f32{}", shape.text()));
  }
  return {{dy.dtype, shape}};
}

// From the whole tensor to the slice.
StridedCopy taking(const TensorType& whole, const Attrs& attrs) {
  const Ints strides = dense_strides(whole.shape.sizes());
  Ints sizes;
  Ints src;
  std::int64_t offset = 0;
  const std::vector<Range> ranges = ranges_of(attrs, whole.shape);
  for (std::size_t a = 0; a < ranges.size(); ++a) {
    sizes.push_back(ranges[a].size);
    src.push_back(strides[a] * ranges[a].step);
    offset += strides[a] * ranges[a].start;
  }
  StridedCopy copy = copy_from(whole, sizes, src);
  copy.src_offset = offset;
  return copy;
}

// From the slice to the whole tensor.
StridedCopy putting(const TensorType& whole, const Attrs& attrs) {
  StridedCopy copy = taking(whole, attrs);
  std::swap(copy.src, copy.dst);
  std::swap(copy.src_offset, copy.dst_offset);
  return copy;
}

std::optional<std::int64_t> view(const OpCall& call) {
  if (!call.shape(0).is_static()) return std::nullopt;
  const std::vector<Range> ranges = ranges_of(call.attrs, call.shape(0));
  const Ints sizes = call.shape(0).sizes();
  if (!is_contiguous(ranges, sizes)) return std::nullopt;
  return taking(call.in(0), call.attrs).src_offset * byte_size(call.in(0).dtype, 1);
}

Prepared cuda(const OpCall& call) {
  return copy_cuda != nullptr ? copy_cuda({{.copy = taking(call.in(0), call.attrs)}}) : not_linked();
}
Prepared simd(const OpCall& call) { return copy_simd({{.copy = taking(call.in(0), call.attrs)}}); }
Prepared ref(const OpCall& call) { return copy_ref({{.copy = taking(call.in(0), call.attrs)}}); }

// The boxes around a slice with steps of 1, disjoint: axes before `a` inside the slice, axis a before or behind it, the
// others whole. With other steps, one box: everything.
std::vector<StridedCopy> surroundings(const TensorType& whole, const Attrs& attrs) {
  const Ints sizes = whole.shape.sizes();
  const Ints strides = dense_strides(sizes);
  const std::vector<Range> ranges = ranges_of(attrs, whole.shape);
  const bool is_box = std::all_of(ranges.begin(), ranges.end(), [](const Range& r) { return r.step == 1; });
  StridedCopy box = copy_from(whole, sizes, strides);
  if (!is_box) return {merged(box)};
  std::vector<StridedCopy> boxes;
  for (std::size_t a = 0; a < ranges.size(); ++a) {
    const std::int64_t end = ranges[a].start + ranges[a].size;
    for (const Range& side : {Range{.size = ranges[a].start}, Range{.start = end, .size = sizes[a] - end}}) {
      StridedCopy part = box;
      part.size[a] = side.size;
      part.dst_offset += side.start * strides[a];
      if (side.size > 0) boxes.push_back(merged(part));
    }
    box.size[a] = ranges[a].size;
    box.dst_offset += ranges[a].start * strides[a];
  }
  return boxes;
}

Prepared simd_grad(const OpCall& call) {
  const TensorType& dx = call.outputs[0];
  const StridedCopy copy = merged(putting(dx, call.attrs));
  const bool is_empty = call.in(0).elements() == 0;
  const auto bytes = static_cast<std::size_t>(dx.bytes());
  if (call.has(1)) {
    return function_kernel([=](const Buffers& b) {
      if (b.outputs[0] != b.inputs[1]) std::memcpy(b.outputs[0], b.inputs[1], bytes);
      if (!is_empty) strided_table().add(copy, b.in<float>(0), b.out<float>(0));
    });
  }
  return function_kernel([=, around = surroundings(dx, call.attrs)](const Buffers& b) {
    for (const StridedCopy& box : around) strided_table().zero(box, b.outputs[0]);
    if (!is_empty) strided_table().copy(copy, b.inputs[0], b.outputs[0]);
  });
}

Prepared cuda_grad(const OpCall& call) {
  if (put_cuda == nullptr) return not_linked();
  return put_cuda(putting(call.outputs[0], call.attrs), call.outputs[0].bytes(), call.has(1));
}

Prepared ref_grad(const OpCall& call) {
  const StridedCopy copy = putting(call.outputs[0], call.attrs);
  const std::int64_t n = call.in(0).elements();
  const auto bytes = static_cast<std::size_t>(call.outputs[0].bytes());
  if (!call.has(1)) {
    return function_kernel([=](const Buffers& b) {
      std::memset(b.outputs[0], 0, bytes);
      copy_plainly(copy, b.inputs[0], b.outputs[0]);
    });
  }
  StridedCopy back = copy;
  std::swap(back.src, back.dst);
  std::swap(back.src_offset, back.dst_offset);
  return function_kernel(
      [=](const Buffers& b) {
        auto* part = reinterpret_cast<float*>(b.workspace);
        std::memmove(b.outputs[0], b.inputs[1], bytes);
        copy_plainly(back, b.outputs[0], b.workspace);
        for (std::int64_t i = 0; i < n; ++i) part[i] += b.in<float>(0)[i];
        copy_plainly(copy, b.workspace, b.outputs[0]);
      },
      n * static_cast<std::int64_t>(sizeof(float)));
}

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};
constexpr KernelEntry kGradKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda_grad}, {"simd", DeviceKind::kCpu, simd_grad}, {"ref", DeviceKind::kCpu, ref_grad}};
constexpr InOut kGradInPlace[] = {{1, 0}};

}  // namespace

extern constinit const OpDef slice = {.name = "slice",
                                      .infer = infer,
                                      .gradient = gradient,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .flops = no_flops,
                                      .view_offset = view,
                                      .cheap = true};

extern constinit const OpDef slice_grad = {.name = "slice_grad",
                                           .infer = infer_grad,
                                           .kernels = kGradKernels,
                                           .kernel_count = std::size(kGradKernels),
                                           .flops = no_flops,
                                           .in_place = kGradInPlace,
                                           .cheap = true};

}  // namespace neap::ops
