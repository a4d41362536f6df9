// pad(x; pads, mode, value) -> y: ONNX's Pad. Modes constant (default), reflect, edge, wrap; negative pads crop, first.
// pad_grad(dy; pads, mode, shape) -> dx, for the modes in which an element may come from several places.
#include "ops/pad/pad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "neap/error.h"
#include "ops/elementwise/element.h"

namespace neap::ops {

std::int64_t PadAxis::source(std::int64_t o, PadMode mode) const {
  const std::int64_t p = o - begin;
  if (p >= 0 && p < kept) return first + p;
  switch (mode) {
    case PadMode::kConstant: return -1;
    case PadMode::kEdge: return first + std::clamp<std::int64_t>(p, 0, kept - 1);
    case PadMode::kReflect: return first + (p < 0 ? -p : 2 * kept - 2 - p);
    case PadMode::kWrap: return first + (p % kept + kept) % kept;
  }
  return -1;
}

PadMode pad_mode(const Attrs& attrs) {
  const std::string text = attrs.text("mode", "constant");
  constexpr std::string_view kNames[] = {"constant", "reflect", "edge", "wrap"};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<PadMode>(i);
  }
  throw UserError(fmt::format("mode '{}' is none of constant, reflect, edge, wrap", text));
}

namespace {

Ints pads_of(const Shape& x, const Attrs& attrs) {
  Ints pads = attrs.ints("pads");
  if (pads.size() != 2 * static_cast<std::size_t>(x.rank())) {
    throw UserError(fmt::format("pads needs {} numbers, it has {}", 2 * x.rank(), pads.size()));
  }
  for (const std::int64_t p : pads) {
    if (std::abs(p) > std::int64_t{1} << 40) throw UserError(fmt::format("a pad cannot be {}", p));
  }
  return pads;
}

PadAxis pad_axis(std::int64_t in, std::int64_t begin, std::int64_t end, PadMode mode) {
  const PadAxis axis{.in = in,
                     .first = std::max<std::int64_t>(0, -begin),
                     .kept = in - std::max<std::int64_t>(0, -begin) - std::max<std::int64_t>(0, -end),
                     .begin = std::max<std::int64_t>(0, begin),
                     .end = std::max<std::int64_t>(0, end)};
  const std::int64_t longest = std::max(axis.begin, axis.end);
  const bool needs_some = mode != PadMode::kConstant && longest > 0;
  const bool too_short = axis.kept < (needs_some ? 1 : 0) ||
                         (mode == PadMode::kReflect && longest >= std::max<std::int64_t>(axis.kept, 1));
  if (too_short) throw UserError(fmt::format("pads {} and {} do not fit an axis of {}", begin, end, in));
  return axis;
}

}  // namespace

std::vector<PadAxis> pad_axes(const Shape& x, const Attrs& attrs) {
  const Ints pads = pads_of(x, attrs);
  const PadMode mode = pad_mode(attrs);
  const auto rank = static_cast<std::size_t>(x.rank());
  std::vector<PadAxis> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    axes.push_back(pad_axis(x.size(static_cast<int>(i)), pads[i], pads[rank + i], mode));
  }
  return axes;
}

std::int64_t pad_value(DType type, double value) {
  if (type == DType::kBits) throw UserError("cannot pad elements of one bit");
  std::int64_t bytes = 0;
  set_real(type, &bytes, 0, value);
  return bytes;
}

namespace {

Shape padded(const Shape& x, const Attrs& attrs) {
  const Ints pads = pads_of(x, attrs);
  const PadMode mode = pad_mode(attrs);
  const auto rank = static_cast<std::size_t>(x.rank());
  Shape y;
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim& d = x[static_cast<int>(i)];
    const bool changes = pads[i] != 0 || pads[rank + i] != 0;
    if (d.is_number()) {
      y.push_back(pad_axis(d.number(), pads[i], pads[rank + i], mode).out());
    } else {
      y.push_back(changes ? Dim::unknown() : d);
    }
  }
  return y;
}

Types infer(const OpCall& call) {
  pad_value(call.in(0).dtype, call.attrs.real("value", 0));
  return {{call.in(0).dtype, padded(call.shape(0), call.attrs)}};
}

Types infer_grad(const OpCall& call) {
  const Shape x = call.attrs.shape("shape");
  const bool fits = call.in(0).dtype == DType::kF32 && call.shape(0) == padded(x, call.attrs);
  if (!fits) throw UserError("takes an f32 gradient of the padded shape");
  return {{DType::kF32, x}};
}

// Constants have no gradient: what was padded is cropped, what was cropped gets zeros.
Values gradient(GradientCall& c) {
  Attrs attrs = c.node.attrs;
  if (pad_mode(attrs) != PadMode::kConstant) {
    attrs.set("shape", c.g.shape(c.x(0)));
    return {c.g("pad_grad", {c.dy[0]}, attrs)};
  }
  Ints pads = attrs.ints("pads");
  for (std::int64_t& p : pads) p = -p;
  return {c.g("pad", {c.dy[0]}, {{"pads", pads}})};
}

constexpr KernelEntry kForward[] = {
    {"cuda", DeviceKind::kCuda, pad_cuda}, {"copy", DeviceKind::kCpu, pad_copy}, {"ref", DeviceKind::kCpu, pad_ref}};
constexpr KernelEntry kBackward[] = {{"cuda", DeviceKind::kCuda, pad_grad_cuda},
                                     {"gather", DeviceKind::kCpu, pad_grad_gather},
                                     {"ref", DeviceKind::kCpu, pad_grad_ref}};

}  // namespace

extern constinit const OpDef pad = {.name = "pad",
                                    .infer = infer,
                                    .gradient = gradient,
                                    .kernels = kForward,
                                    .kernel_count = std::size(kForward),
                                    .cheap = true};

extern constinit const OpDef pad_grad = {
    .name = "pad_grad", .infer = infer_grad, .kernels = kBackward, .kernel_count = std::size(kBackward)};

}  // namespace neap::ops
