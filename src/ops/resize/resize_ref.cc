#include "ops/elementwise/element.h"
#include "ops/resize/resize.h"

namespace neap::ops {
namespace {

struct Problem {
  std::vector<AxisTaps> taps;
  double extrapolation;
  std::int64_t outputs = 1;

  bool is_outside(std::int64_t o) const {
    for (std::size_t a = taps.size(); a-- > 0; o /= taps[a].out) {
      if (taps[a].outside[static_cast<std::size_t>(o % taps[a].out)] != 0) return true;
    }
    return false;
  }

  // Sum over the taps of axes `axis` and on; `o` and `inner` are the output's index and size from there on.
  template <class T>
  double sum(const T* x, std::size_t axis, std::int64_t at, std::int64_t o, std::int64_t inner) const {
    if (axis == taps.size()) return static_cast<double>(x[at]);
    const AxisTaps& a = taps[axis];
    inner /= a.out;
    const auto row = static_cast<std::size_t>(o / inner);
    double total = 0;
    for (auto t = static_cast<std::size_t>(a.begin[row]); t < static_cast<std::size_t>(a.begin[row + 1]); ++t) {
      total += a.weight[t] * sum(x, axis + 1, at * a.in + a.index[t], o % inner, inner);
    }
    return total;
  }
};

}  // namespace

Prepared resize_by_ref(const std::vector<AxisTaps>& taps, DType type, double extrapolation) {
  Problem problem{.taps = taps, .extrapolation = extrapolation};
  for (const AxisTaps& a : taps) problem.outputs *= a.out;
  return with_type(type, [&]<class T>(Type<T>) {
    return function_kernel([p = problem](const Buffers& b) {
      for (std::int64_t o = 0; o < p.outputs; ++o) {
        const double y = p.is_outside(o) ? p.extrapolation : p.sum(b.in<T>(0), 0, 0, o, p.outputs);
        b.out<T>(0)[o] = element_of<T>(y);
      }
    });
  });
}

}  // namespace neap::ops
