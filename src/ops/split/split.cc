// split: pieces of these "sizes" along "axis", or as many equal ones as "parts" says. One output a piece.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "neap/error.h"
#include "ops/shape_util/axes.h"
#include "ops/shape_util/strided.h"

namespace neap::ops {
namespace {

int axis_in(const Attrs& attrs, int rank) { return axis_of(attrs.integer("axis", 0), rank); }

std::vector<Dim> equal_pieces(const Dim& whole, std::int64_t parts) {
  if (parts < 1 || parts > 65536) throw UserError(fmt::format("it cannot be split into {} parts", parts));
  if (whole.is_number() && whole.number() % parts != 0) {
    throw UserError(fmt::format("{} does not divide by {}: give sizes", whole.text(), parts));
  }
  return std::vector<Dim>(static_cast<std::size_t>(parts), whole / Dim(parts));
}

std::vector<Dim> pieces(const Attrs& attrs, const Shape& shape) {
  const Dim whole = shape[axis_in(attrs, shape.rank())];
  if (!attrs.has("sizes")) return equal_pieces(whole, attrs.integer("parts"));
  const Ints sizes = attrs.ints("sizes");
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > INT64_MAX / 2 - sum) throw UserError(fmt::format("no piece can have size {}", size));
    sum += size;
  }
  if (sizes.empty() || (whole.is_number() && whole != Dim(sum))) {
    throw UserError(fmt::format("the sizes add up to {}, not to {}", sum, whole.text()));
  }
  return {sizes.begin(), sizes.end()};
}

Types infer(const OpCall& call) {
  const TensorType& x = movable(call.in(0));
  const int axis = axis_in(call.attrs, x.shape.rank());
  Types out;
  for (const Dim& piece : pieces(call.attrs, x.shape)) {
    out.push_back(x);
    out.back().shape[axis] = piece;
  }
  return out;
}

// The pieces' gradients behind each other; where some are missing, those that are there among zeros.
Values gradient(GradientCall& c) {
  const Shape shape = c.g.shape(c.x(0));
  const std::int64_t axis = axis_in(c.node.attrs, shape.rank());
  if (std::all_of(c.dy.begin(), c.dy.end(), [](Value dy) { return static_cast<bool>(dy); })) {
    return {c.g("concat", c.dy, {{"axis", axis}})};
  }
  Value sum = c.take_sum(0);
  std::int64_t start = 0;
  const std::vector<Dim> sizes = pieces(c.node.attrs, shape);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t end = start + known_shape({sizes[i]}, "the gradient of split").count();
    if (c.dy[i]) {
      sum = c.g("slice_grad", {c.dy[i], sum},
                {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}, {"shape", shape}});
    }
    start = end;
  }
  return {sum};
}

CopyParts parts(const OpCall& call) {
  const Shape& shape = call.shape(0);
  const int axis = axis_in(call.attrs, shape.rank());
  const Ints strides = dense_strides(shape.sizes());
  CopyParts out;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    StridedCopy copy = copy_from(call.in(0), call.outputs[i].shape.sizes(), strides);
    copy.src_offset = start * strides[static_cast<std::size_t>(axis)];
    out.push_back({.copy = copy, .output = i});
    start += call.outputs[i].shape.size(axis);
  }
  return out;
}

std::optional<std::int64_t> view(const OpCall& call) {
  return call.outputs.size() == 1 ? std::optional<std::int64_t>(0) : std::nullopt;
}

Prepared cuda(const OpCall& call) { return copy_cuda != nullptr ? copy_cuda(parts(call)) : not_linked(); }
Prepared simd(const OpCall& call) { return copy_simd(parts(call)); }
Prepared ref(const OpCall& call) { return copy_ref(parts(call)); }

constexpr KernelEntry kKernels[] = {
    {"cuda", DeviceKind::kCuda, cuda}, {"simd", DeviceKind::kCpu, simd}, {"ref", DeviceKind::kCpu, ref}};

}  // namespace

extern constinit const OpDef split = {.name = "split",
                                      .infer = infer,
                                      .gradient = gradient,
                                      .kernels = kKernels,
                                      .kernel_count = std::size(kKernels),
                                      .flops = no_flops,
                                      .optional_outputs = ~0U,
                                      .view_offset = view,
                                      .cheap = true};

}  // namespace neap::ops
