// concat: the inputs one behind the other along "axis".
#include <fmt/format.h>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

int axis_in(const Attrs& attrs, int rank) { return axis_of(attrs.integer("axis"), rank); }

// Dims cannot be added unless they are numbers or equal.
Dim joined(const Dim& sum, const Dim& part, std::size_t parts_before, bool all_equal) {
  if (sum.is_number() && part.is_number()) return sum.number() + part.number();
  return all_equal ? part * Dim(static_cast<std::int64_t>(parts_before + 1)) : Dim::unknown();
}

Types infer(const OpCall& call) {
  const TensorType& first = movable(call.in(0));
  const int axis = axis_in(call.attrs, first.shape.rank());
  TensorType out = first;
  bool all_equal = true;
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    const TensorType& part = call.in(i);
    const bool fits = part.dtype == first.dtype && part.shape.rank() == first.shape.rank();
    for (int a = 0; fits && a < first.shape.rank(); ++a) {
      const Dim& x = first.shape[a];
      const Dim& y = part.shape[a];
      if (a != axis && x != y && x.is_number() && y.is_number()) {
        throw UserError(fmt::format("{} and {} differ in axis {}", first.text(), part.text(), a));
      }
      if (a != axis && !out.shape[a].is_number()) out.shape[a] = y;
    }
    if (!fits) throw UserError(fmt::format("{} cannot follow {}", part.text(), first.text()));
    all_equal = all_equal && part.shape[axis] == first.shape[axis];
    out.shape[axis] = joined(out.shape[axis], part.shape[axis], i, all_equal);
  }
  return {std::move(out)};
}

// Slices of dy: views where the axis is the outermost.
Values gradient(GradientCall& c) {
  const int axis = axis_in(c.node.attrs, c.g.shape(c.y(0)).rank());
  Values dx(c.node.inputs.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const Dim length = c.g.shape(c.x(i))[axis];
    if (!length.is_number()) {
      throw UserError(
          fmt::format("the gradient of concat along {} needs numbers: bind its symbols first", length.text()));
    }
    const std::int64_t end = start + length.number();
    if (c.wants(i)) {
      dx[i] = c.g("slice", {c.dy[0]}, {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}});
    }
    start = end;
  }
  return dx;
}

CopyParts parts(const OpCall& call) {
  const int axis = axis_in(call.attrs, call.shape(0).rank());
  const Ints strides = dense_strides(call.outputs[0].shape.sizes());
  CopyParts out;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Ints sizes = call.shape(i).sizes();
    StridedCopy copy = copy_from(call.in(i), sizes, dense_strides(sizes));
    for (std::size_t a = 0; a < sizes.size(); ++a) copy.dst[a] = strides[a];
    copy.dst_offset = start * strides[static_cast<std::size_t>(axis)];
    out.push_back({.copy = copy, .input = i});
    start += sizes[static_cast<std::size_t>(axis)];
  }
  return out;
}

std::optional<std::int64_t> view(const OpCall& call) {
  return call.inputs.size() == 1 ? std::optional<std::int64_t>(0) : std::nullopt;
}

std::optional<std::int64_t> part_offset(const OpCall& call, std::size_t input) {
  const int axis = axis_in(call.attrs, call.shape(0).rank());
  for (int a = 0; a < axis; ++a) {
    if (call.shape(0)[a] != Dim(1)) return std::nullopt;
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < input; ++i) {
    if (!call.shape(i).is_static()) return std::nullopt;
    bytes += call.in(i).bytes();
  }
  return bytes;
}

Prepared cuda(const OpCall& call) { return copy_cuda != nullptr ? copy_cuda(parts(call)) : not_linked(); }
Prepared simd(const OpCall& call) { return copy_simd(parts(call)); }
Prepared ref(const OpCall& call) { return copy_ref(parts(call)); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef concat = {.name = "concat",
                                       .infer = infer,
                                       .gradient = gradient,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .flops = no_flops,
                                       .view_offset = view,
                                       .part_offset = part_offset,
                                       .cheap = true};

}  // namespace neap::ops
