// Resizing on any axes. The taps of each axis that changes are first listed in the workspace, row by row of the result;
// then a thread an element of the result sums over them, axis within axis, as the reference does.
#include <limits>

#include "ops/cuda_kernel.h"
#include "ops/elementwise/element.h"
#include "ops/gather/lists.cuh"
#include "ops/resize/resize.h"

namespace neap::ops {
namespace {

// The taps of a row of the result: of an output, or (back) of an input.
struct Rows {
  ResizeRule rule;
  bool back;

  template <class F>
  __device__ void each_tap(std::int64_t row, F f) const {
    if (!back) return rule.each_tap(row, f);
    const ResizeRule::Outputs takers = rule.takers(row);
    for (std::int64_t o = takers.first; o < takers.end; ++o) {
      rule.each_tap(o, [&](std::int64_t input, double weight) {
        if (input == row) f(o, weight);
      });
    }
  }
};

struct Axis {
  Rows rows;
  std::int64_t in, out;  // of what is read and of what is written
  bool changes;
  std::int64_t taps;
  const int* begin;  // null: the axis stays as it is
  const int* index;
  const double* weight;
};

std::int64_t bytes_of(const Axis& a) {
  return align_up(Lists::bytes(a.out, a.taps)) + align_up(a.taps * static_cast<std::int64_t>(sizeof(double)));
}

void count_taps(const Rows& rows, std::int64_t n, int* counts, cudaStream_t stream) {
  each("resize", n, stream, [=] __device__(std::int64_t row) {
    int count = 0;
    rows.each_tap(row, [&](std::int64_t, double) { ++count; });
    counts[row] = count;
  });
}

void write_taps(const Rows& rows, std::int64_t n, const Lists& lists, double* weights, cudaStream_t stream) {
  each("resize", n, stream, [=] __device__(std::int64_t row) {
    int at = lists.begin[row];
    rows.each_tap(row, [&](std::int64_t input, double weight) {
      lists.picks[at] = static_cast<int>(input);
      weights[at] = weight;
      ++at;
    });
  });
}

void list_taps(Axis& a, std::byte* workspace, cudaStream_t stream) {
  const Lists lists(workspace, a.out);
  auto* weights = reinterpret_cast<double*>(workspace + align_up(Lists::bytes(a.out, a.taps)));
  count_taps(a.rows, a.out, lists.cursor, stream);
  begin_lists(a.out, lists.begin, lists.cursor, stream);
  write_taps(a.rows, a.out, lists, weights, stream);
  a.begin = lists.begin;
  a.index = lists.picks;
  a.weight = weights;
}

constexpr int kMostAxes = 6;  // neighbours that stay as they are count as one

struct Problem {
  Axis axes[kMostAxes];
  int rank = 0;
  std::int64_t outputs = 1;
  double extrapolation = 0;
};

struct Places {
  std::int64_t at[kMostAxes];
};

__device__ Places places_of(const Problem& p, std::int64_t o) {
  Places places = {};
  for (int a = kMostAxes - 1; a >= 0; --a) {
    if (a >= p.rank) continue;
    places.at[a] = o % p.axes[a].out;
    o /= p.axes[a].out;
  }
  return places;
}

__device__ bool is_outside(const Problem& p, const Places& places) {
  for (int a = 0; a < kMostAxes; ++a) {
    if (a >= p.rank || p.axes[a].begin == nullptr || p.axes[a].rows.back) continue;
    const ResizeRule& rule = p.axes[a].rows.rule;
    if (rule.is_outside(rule.position(places.at[a]))) return true;
  }
  return false;
}

// Sum over the taps of axes A and on.
template <int A, class T>
__device__ double sum(const Problem& p, const Places& places, const T* x, std::int64_t at) {
  if constexpr (A == kMostAxes) {
    return static_cast<double>(x[at]);
  } else {
    const bool is_there = A < p.rank;
    const Axis& a = p.axes[A];
    const bool stays = !is_there || a.begin == nullptr;
    const std::int64_t first = stays ? 0 : a.begin[places.at[A]];
    const std::int64_t end = stays ? 1 : a.begin[places.at[A] + 1];
    double total = 0;
    for (std::int64_t t = first; t < end; ++t) {
      const std::int64_t next = is_there ? at * a.in + (stays ? places.at[A] : a.index[t]) : at;
      const double part = sum<A + 1>(p, places, x, next);
      total += stays ? part : a.weight[t] * part;
    }
    return total;
  }
}

// A float is cut to an integer and held within its range, NaN as 0.
template <class T>
__device__ T element(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (value != value) return 0;
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <class T>
void run(const Buffers& b, cudaStream_t stream, Problem p) {
  std::byte* workspace = b.workspace;
  for (int a = 0; a < p.rank; ++a) {
    if (!p.axes[a].changes) continue;
    list_taps(p.axes[a], workspace, stream);
    workspace += bytes_of(p.axes[a]);
  }
  const auto* x = b.in<T>(0);
  auto* y = b.out<T>(0);
  each("resize", p.outputs, stream, [=] __device__(std::int64_t o) {
    const Places places = places_of(p, o);
    y[o] = element<T>(is_outside(p, places) ? p.extrapolation : sum<0>(p, places, x, 0));
  });
}

// False: too many axes.
bool add_axis(Problem& problem, const ResizeRule& rule, bool back) {
  const AxisTaps taps(rule);
  const bool changes = !taps.is_identity();
  Axis* before = problem.rank > 0 ? &problem.axes[problem.rank - 1] : nullptr;
  problem.outputs *= back ? rule.in : rule.out;
  if (!changes && before != nullptr && !before->changes) {
    before->in *= rule.in;
    before->out *= rule.out;
    return true;
  }
  if (problem.rank == kMostAxes) return false;
  problem.axes[problem.rank++] = {.rows = {rule, back},
                                  .in = back ? rule.out : rule.in,
                                  .out = back ? rule.in : rule.out,
                                  .changes = changes,
                                  .taps = static_cast<std::int64_t>(taps.index.size())};
  return true;
}

}  // namespace

Prepared resize_by_cuda(const std::vector<ResizeRule>& rules, bool back, DType type, double extrapolation) {
  Problem problem{.extrapolation = extrapolation};
  for (const ResizeRule& rule : rules) {
    if (!add_axis(problem, rule, back)) return Declined{"at most six axes, neighbours that stay as they are being one"};
  }
  std::int64_t bytes = 0;
  for (int a = 0; a < problem.rank; ++a) bytes += problem.axes[a].changes ? bytes_of(problem.axes[a]) : 0;
  return with_type(type, [&]<class T>(Type<T>) -> Prepared {
    if constexpr (std::is_arithmetic_v<T>) {
      return cuda_kernel(
          [p = problem](const Buffers& b, cudaStream_t stream) {
            if (p.outputs > 0) run<T>(b, stream, p);
          },
          bytes);
    }
    return Declined{"no floats of 16 bits"};
  });
}

}  // namespace neap::ops
