#include "ops/reduce/reduce_simd.h"

#include "device/cpu/vmath.h"

namespace neap::NEAP_ISA_NS {
namespace {

constexpr int kHalf = kLanes / 2;
constexpr std::int32_t kLaneNumbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};

// Walks the offsets of a set of axes from any point on.
struct Strider {
  const ReducePlan::Axes& axes;
  std::int64_t index[ReducePlan::kMaxRank] = {};
  std::int64_t offset = 0;

  NEAP_VM Strider(const ReducePlan::Axes& of, std::int64_t linear) : axes(of) {
    for (int a = axes.rank - 1; a >= 0; --a) {
      index[a] = linear % axes.dims[a];
      linear /= axes.dims[a];
      offset += index[a] * axes.strides[a];
    }
  }
  NEAP_VM void next() {
    for (int a = axes.rank - 1; a >= 0; --a) {
      offset += axes.strides[a];
      if (++index[a] < axes.dims[a]) return;
      index[a] = 0;
      offset -= axes.dims[a] * axes.strides[a];
    }
  }
};

// What a reduction does: map() in f32 on the way in, fold() a term and merge() two partial results in double (vectors
// or scalars), finish() at the end.
struct Sum {
  static constexpr double kStart = 0;
  NEAP_VM static vf map(vf x, vf) { return x; }
  template <class D>
  NEAP_VM static D fold(D sum, D x) {
    return sum + x;
  }
  template <class D>
  NEAP_VM static D merge(D a, D b) {
    return a + b;
  }
  NEAP_VM static double finish(double sum, double, float) { return sum; }
};
struct Mean : Sum {
  NEAP_VM static double finish(double sum, double terms, float) { return sum / terms; }
};
struct L1 : Sum {
  NEAP_VM static vf map(vf x, vf) { return vabs(x); }
};
struct SumSquare : Sum {
  template <class D>
  NEAP_VM static D fold(D sum, D x) {
    return sum + x * x;
  }
};
struct L2 : SumSquare {
  NEAP_VM static double finish(double sum, double, float) { return __builtin_sqrt(sum); }
};
struct LogSumExp : Sum {
  // Centre 0 instead of an infinity keeps inf - inf out.
  template <class F>
  NEAP_VM static F bounded(F centre) {
    return centre - centre == F{} ? centre : F{};
  }
  NEAP_VM static vf map(vf x, vf centre) { return vexp(x - bounded(centre)); }
  NEAP_VM static double finish(double sum, double, float centre) { return __builtin_log(sum) + bounded(centre); }
};
struct Ties : Sum {
  NEAP_VM static vf map(vf x, vf centre) { return x == centre ? vset(1.0F) : vf{}; }
};
struct Zeros : Sum {
  NEAP_VM static vf map(vf x, vf) { return x == 0.0F ? vset(1.0F) : vf{}; }
};
struct Prod : Sum {
  static constexpr double kStart = 1;
  template <class D>
  NEAP_VM static D fold(D product, D x) {
    return product * x;
  }
  template <class D>
  NEAP_VM static D merge(D a, D b) {
    return a * b;
  }
};
struct ProdWithoutZero : Prod {
  NEAP_VM static vf map(vf x, vf) { return x == 0.0F ? vset(1.0F) : x; }
};
// NaN wins.
struct Max : Sum {
  static constexpr double kStart = -__builtin_inf();
  template <class D>
  NEAP_VM static D fold(D best, D x) {
    return (best > x) | (best != best) ? best : x;
  }
  template <class D>
  NEAP_VM static D merge(D a, D b) {
    return fold(a, b);
  }
};
struct Min : Sum {
  static constexpr double kStart = __builtin_inf();
  template <class D>
  NEAP_VM static D fold(D best, D x) {
    return (best < x) | (best != best) ? best : x;
  }
  template <class D>
  NEAP_VM static D merge(D a, D b) {
    return fold(a, b);
  }
};

struct Pair {
  vd low, high;
};
NEAP_VM vd dset(double x) { return x - vd{}; }
NEAP_VM Pair widen(vf x) {
  vf_half half[2];
  __builtin_memcpy(half, &x, sizeof x);
  return {__builtin_convertvector(half[0], vd), __builtin_convertvector(half[1], vd)};
}
NEAP_VM vd dload(const double* p) { return vload_as<vd>(p); }
NEAP_VM void dstore(double* p, vd v) { __builtin_memcpy(p, &v, sizeof v); }

template <class P>
NEAP_VM void fold_pair(Pair& sum, vf x, vf centre) {
  const Pair wide = widen(P::map(x, centre));
  sum.low = P::fold(sum.low, wide.low);
  sum.high = P::fold(sum.high, wide.high);
}

typedef std::int64_t vl __attribute__((vector_size(4 * kLanes)));  // as many lanes as vd
NEAP_VM vl half_lane() { return __builtin_convertvector(vload_as<vi_half>(kLaneNumbers), vl); }

// Folds the first n lanes only.
template <class P>
NEAP_VM void fold_part(Pair& sum, vf x, vf centre, std::int64_t n) {
  const Pair before = sum;
  fold_pair<P>(sum, x, centre);
  sum.low = half_lane() < n ? sum.low : before.low;
  sum.high = half_lane() < n - kHalf ? sum.high : before.high;
}

// Innermost axis reduced: n consecutive elements; two pairs of accumulators hide the latency.
template <class P>
NEAP_VM void fold_run(Pair (&sum)[2], const float* x, std::int64_t n, vf centre) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    fold_pair<P>(sum[0], vload(x + i), centre);
    fold_pair<P>(sum[1], vload(x + i + kLanes), centre);
  }
  if (i + kLanes <= n) {
    fold_pair<P>(sum[0], vload(x + i), centre);
    i += kLanes;
  }
  if (i < n) fold_part<P>(sum[1], vload_n(x + i, n - i), centre, n - i);
}

template <class P>
NEAP_VM double merge_lanes(const Pair (&sum)[2]) {
  vd all = P::merge(P::merge(sum[0].low, sum[0].high), P::merge(sum[1].low, sum[1].high));
#pragma GCC unroll 4
  for (int half = kHalf / 2; half > 0; half /= 2) all = P::merge(all, __builtin_shuffle(all, half_lane() ^ half));
  return all[0];
}

// Terms [first, last) of one result, whose first element is x[0].
template <class P>
double fold_terms(const ReducePlan& p, const float* x, float centre, std::int64_t first, std::int64_t last) {
  Pair sum[2] = {{dset(P::kStart), dset(P::kStart)}, {dset(P::kStart), dset(P::kStart)}};
  if (first < last) {
    const int inner = p.reduced.rank - 1;
    const std::int64_t width = p.reduced.dims[inner];
    for (Strider at(p.reduced, first); first < last;) {
      const std::int64_t left = width - at.index[inner];
      const std::int64_t run = left < last - first ? left : last - first;
      fold_run<P>(sum, x + at.offset, run, vset(centre));
      first += run;
      at.index[inner] = width - 1;
      at.offset += left - 1;
      at.next();
    }
  }
  return merge_lanes<P>(sum);
}

std::int64_t block_start(std::int64_t terms, std::int64_t blocks, std::int64_t block) { return terms * block / blocks; }

// Below this many elements one thread does it alone.
constexpr std::int64_t kAlone = 16384;

template <class P>
void reduce_runs(const ReducePlan& p, const float* src, const float* centre, float* dst, double* partial) {
  const std::int64_t tasks = p.outputs() * p.blocks;
  const auto terms = static_cast<double>(p.terms());
#pragma omp parallel for schedule(static) if (p.outputs() * p.terms() > kAlone)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t out = task / p.blocks;
    const std::int64_t block = task % p.blocks;
    const float about = centre != nullptr ? centre[out] : 0.0F;
    const double sum =
        fold_terms<P>(p, src + Strider(p.kept, out).offset, about, block_start(p.terms(), p.blocks, block),
                      block_start(p.terms(), p.blocks, block + 1));
    if (p.blocks > 1) {
      partial[task] = sum;
    } else {
      dst[out] = static_cast<float>(P::finish(sum, terms, about));
    }
  }
  if (p.blocks == 1) return;
  for (std::int64_t out = 0; out < p.outputs(); ++out) {
    double sum = P::kStart;
    for (std::int64_t b = 0; b < p.blocks; ++b) sum = P::merge(sum, partial[out * p.blocks + b]);
    dst[out] = static_cast<float>(P::finish(sum, terms, centre != nullptr ? centre[out] : 0.0F));
  }
}

// Innermost axis kept: a strip of columns, whose accumulators stay in L1, takes row after row.
constexpr std::int64_t kStrip = 1024;
static_assert(kStrip % kLanes == 0);

struct Strip {
  std::int64_t width;
  const float* centre;  // null: none
  double sum[kStrip];
};

template <class P, int kRows>
NEAP_VM void fold_rows(Strip& s, const float* const (&row)[kRows]) {
  for (std::int64_t c = 0; c < s.width; c += kLanes) {
    const std::int64_t n = s.width - c < kLanes ? s.width - c : kLanes;
    Pair sum = {dload(s.sum + c), dload(s.sum + c + kHalf)};
    const vf centre = s.centre != nullptr ? vload_n(s.centre + c, n) : vf{};
    if (n == kLanes) {
      for (const float* x : row) fold_pair<P>(sum, vload(x + c), centre);
    } else {
      for (const float* x : row) fold_pair<P>(sum, vload_n(x + c, n), centre);
    }
    dstore(s.sum + c, sum.low);
    dstore(s.sum + c + kHalf, sum.high);
  }
}

template <class P>
void fold_strip(const ReducePlan& p, const float* x, Strip& s, std::int64_t first, std::int64_t last) {
  for (double& sum : s.sum) sum = P::kStart;
  if (first == last) return;
  Strider at(p.reduced, first);
  for (; first + 4 <= last; first += 4) {
    const float* rows[4];
    for (const float*& row : rows) {
      row = x + at.offset;
      at.next();
    }
    fold_rows<P>(s, {rows[0], rows[1], rows[2], rows[3]});
  }
  for (; first < last; ++first, at.next()) fold_rows<P>(s, {x + at.offset});
}

// The kept axes but the innermost, along which strips are cut.
struct Columns {
  ReducePlan::Axes outer;
  std::int64_t width;
  std::int64_t strips;

  explicit Columns(const ReducePlan& p) : outer(p.kept) {
    width = p.kept.dims[p.kept.rank - 1];
    --outer.rank;
    outer.count = width == 0 ? 0 : p.outputs() / width;
    strips = (width + kStrip - 1) / kStrip;
  }
};

template <class P>
void finish_columns(const ReducePlan& p, const Columns& cols, const float* centre, float* dst, const double* partial) {
  const auto terms = static_cast<double>(p.terms());
  for (std::int64_t out = 0; out < p.outputs(); ++out) {
    const std::int64_t outer = out / cols.width;
    const std::int64_t column = out % cols.width;
    double sum = P::kStart;
    for (std::int64_t b = 0; b < p.blocks; ++b) {
      sum = P::merge(sum, partial[(outer * p.blocks + b) * cols.width + column]);
    }
    dst[out] = static_cast<float>(P::finish(sum, terms, centre != nullptr ? centre[out] : 0.0F));
  }
}

template <class P>
void reduce_columns(const ReducePlan& p, const float* src, const float* centre, float* dst, double* partial) {
  const Columns cols(p);
  const auto terms = static_cast<double>(p.terms());
  const std::int64_t tasks = cols.outer.count * p.blocks * cols.strips;
#pragma omp parallel for schedule(static) if (p.outputs() * p.terms() > kAlone)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t first = task % cols.strips * kStrip;
    const std::int64_t block = task / cols.strips % p.blocks;
    const std::int64_t outer = task / cols.strips / p.blocks;
    const std::int64_t out = outer * cols.width + first;
    Strip strip;
    strip.width = cols.width - first < kStrip ? cols.width - first : kStrip;
    strip.centre = centre != nullptr ? centre + out : nullptr;
    fold_strip<P>(p, src + Strider(cols.outer, outer).offset + first, strip, block_start(p.terms(), p.blocks, block),
                  block_start(p.terms(), p.blocks, block + 1));
    if (p.blocks > 1) {
      double* sums = partial + (outer * p.blocks + block) * cols.width + first;
      for (std::int64_t c = 0; c < strip.width; ++c) sums[c] = strip.sum[c];
      continue;
    }
    for (std::int64_t c = 0; c < strip.width; ++c) {
      const float about = strip.centre != nullptr ? strip.centre[c] : 0.0F;
      dst[out + c] = static_cast<float>(P::finish(strip.sum[c], terms, about));
    }
  }
  if (p.blocks > 1) finish_columns<P>(p, cols, centre, dst, partial);
}

template <class P>
void run(const ReducePlan& plan, const float* src, const float* centre, float* dst, double* workspace) {
  if (plan.keeps_innermost) {
    reduce_columns<P>(plan, src, centre, dst, workspace);
  } else {
    reduce_runs<P>(plan, src, centre, dst, workspace);
  }
}

}  // namespace

const ReduceTable& reduce_table() {
  static constexpr ReduceTable kTable = {{run<Sum>, run<Mean>, run<L1>, run<L2>, run<SumSquare>, run<Prod>, run<Max>,
                                          run<Min>, run<LogSumExp>, run<Ties>, run<Zeros>, run<ProdWithoutZero>}};
  return kTable;
}

}  // namespace neap::NEAP_ISA_NS
