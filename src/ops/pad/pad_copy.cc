// Padding as copies of runs: the axes behind the last padded one are one run of bytes; outer axes go through tables.
#include <algorithm>
#include <cstring>

#include "ops/pad/pad.h"

namespace neap::ops {
namespace {

// All axes but the last padded one and those behind it, which are merged into `run` elements.
struct Layout {
  std::vector<PadAxis> outer;
  PadAxis row;
  std::int64_t run = 1;

  explicit Layout(const std::vector<PadAxis>& axes) : outer(axes) {
    while (!outer.empty() && outer.back().is_plain()) {
      run *= outer.back().in;
      outer.pop_back();
    }
    if (outer.empty()) return;
    row = outer.back();
    outer.pop_back();
  }
  std::int64_t outer_count(bool out) const {
    std::int64_t count = 1;
    for (const PadAxis& a : outer) count *= out ? a.out() : a.in;
    return count;
  }
};

struct Copy {
  Layout layout;
  PadMode mode;
  std::int64_t element;  // bytes
  std::int64_t value;

  // The source row of outer output row o; -1: all constant.
  std::int64_t source_row(std::int64_t o) const {
    std::int64_t source = 0;
    std::int64_t scale = 1;
    for (std::size_t i = layout.outer.size(); i-- > 0;) {
      const PadAxis& a = layout.outer[i];
      const std::int64_t at = a.source(o % a.out(), mode);
      if (at < 0) return -1;
      o /= a.out();
      source += at * scale;
      scale *= a.in;
    }
    return source;
  }

  void fill(std::byte* dst, std::int64_t elements) const {
    if (value == 0) {
      std::memset(dst, 0, static_cast<std::size_t>(elements * element));
    } else {
      for (std::int64_t i = 0; i < elements; ++i)
        std::memcpy(dst + i * element, &value, static_cast<std::size_t>(element));
    }
  }

  void edge(const std::byte* src, std::byte* dst, std::int64_t from, std::int64_t to) const {
    const std::int64_t bytes = layout.run * element;
    if (mode == PadMode::kConstant) return fill(dst + from * bytes, (to - from) * layout.run);
    for (std::int64_t o = from; o < to; ++o) {
      std::memcpy(dst + o * bytes, src + layout.row.source(o, mode) * bytes, static_cast<std::size_t>(bytes));
    }
  }

  void copy_row(const std::byte* x, std::byte* y, std::int64_t o) const {
    const PadAxis& r = layout.row;
    const std::int64_t bytes = layout.run * element;
    std::byte* dst = y + o * r.out() * bytes;
    const std::int64_t row = source_row(o);
    if (row < 0) return fill(dst, r.out() * layout.run);
    const std::byte* src = x + row * r.in * bytes;
    edge(src, dst, 0, r.begin);
    std::memcpy(dst + r.begin * bytes, src + r.first * bytes, static_cast<std::size_t>(r.kept * bytes));
    edge(src, dst, r.begin + r.kept, r.out());
  }
};

// Which outputs come from each input of an axis: from[i] .. from[i + 1] of `outputs`.
struct Targets {
  std::vector<std::int64_t> from;
  std::vector<std::int64_t> outputs;

  Targets(const PadAxis& axis, PadMode mode) {
    std::vector<std::vector<std::int64_t>> of(static_cast<std::size_t>(axis.in));
    for (std::int64_t o = 0; o < axis.out(); ++o) of[static_cast<std::size_t>(axis.source(o, mode))].push_back(o);
    for (const auto& list : of) {
      from.push_back(static_cast<std::int64_t>(outputs.size()));
      outputs.insert(outputs.end(), list.begin(), list.end());
    }
    from.push_back(static_cast<std::int64_t>(outputs.size()));
  }
};

struct Gather {
  std::vector<Targets> targets;  // of all axes, the row's last
  std::vector<std::int64_t> in, out;
  std::int64_t run = 1;
  std::int64_t count = 1;  // runs of dx

  Gather(const Layout& layout, PadMode mode) : run(layout.run) {
    std::vector<PadAxis> axes = layout.outer;
    axes.push_back(layout.row);
    for (const PadAxis& a : axes) {
      targets.emplace_back(a, mode);
      in.push_back(a.in);
      out.push_back(a.out());
      count *= a.in;
    }
  }

  // Adds all dy that came from dx's run, axis by axis.
  void add(std::size_t axis, std::int64_t dx_index, std::int64_t inner, std::int64_t offset, const float* dy,
           float* dx) const {
    const std::int64_t inside = inner / in[axis];
    const auto i = static_cast<std::size_t>(dx_index / inside);
    const Targets& t = targets[axis];
    for (std::int64_t j = t.from[i]; j < t.from[i + 1]; ++j) {
      const std::int64_t at = offset * out[axis] + t.outputs[static_cast<std::size_t>(j)];
      if (axis + 1 < targets.size()) {
        add(axis + 1, dx_index % inside, inside, at, dy, dx);
      } else {
        for (std::int64_t e = 0; e < run; ++e) dx[e] += dy[at * run + e];
      }
    }
  }
};

}  // namespace

Prepared pad_copy(const OpCall& call) {
  const DType type = call.in(0).dtype;
  Copy copy{.layout = Layout(pad_axes(call.shape(0), call.attrs)),
            .mode = pad_mode(call.attrs),
            .element = byte_size(type, 1),
            .value = pad_value(type, call.attrs.real("value", 0))};
  const std::int64_t rows = copy.layout.outer_count(true);
  return function_kernel([copy = std::move(copy), rows](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t o = 0; o < rows; ++o) copy.copy_row(b.in<std::byte>(0), b.out<std::byte>(0), o);
  });
}

Prepared pad_grad_gather(const OpCall& call) {
  const Shape& x = call.outputs[0].shape;
  if (x.count() == 0) return Declined{"nothing to compute"};
  Gather gather(Layout(pad_axes(x, call.attrs)), pad_mode(call.attrs));
  return function_kernel([gather = std::move(gather)](const Buffers& b) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < gather.count; ++i) {
      float* dx = b.out<float>(0) + i * gather.run;
      std::fill_n(dx, gather.run, 0.0F);
      gather.add(0, i, gather.count, 0, b.in<float>(0), dx);
    }
  });
}

}  // namespace neap::ops
