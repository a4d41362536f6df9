#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"
#include "ops/attention/attention.h"

namespace neap::ops {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// One query of one head.
struct Row {
  const AttentionShape& s;
  std::int64_t b, h, i;

  std::int64_t kv() const { return h / (s.heads / s.kv_heads); }
  std::int64_t query() const { return b * s.q.batch + i * s.q.token + h * s.q.head; }
  std::int64_t key(std::int64_t j) const { return b * s.k.batch + j * s.k.token + kv() * s.k.head; }
  std::int64_t value(std::int64_t j) const { return b * s.v.batch + j * s.v.token + kv() * s.v.head; }
  std::int64_t out() const { return b * s.out.batch + i * s.out.token + h * s.out.head; }
  std::int64_t number() const { return (b * s.heads + h) * s.queries + i; }

  double score(const Heads<const float>& in, const void* mask, std::int64_t j) const {
    if (s.causal && j > i + s.offset) return kHidden;
    double sum = 0;
    for (std::int64_t d = 0; d < s.depth; ++d) sum += static_cast<double>(in.q[query() + d]) * in.k[key(j) + d];
    sum *= s.scale;
    const std::int64_t at = b * s.mask_batch + h * s.mask_head + i * s.mask_query + j * s.mask_key;
    if (s.mask == MaskKind::kAdded) sum += static_cast<const float*>(mask)[at];
    if (s.mask == MaskKind::kBytes && static_cast<const char*>(mask)[at] == 0) return kHidden;
    return sum;
  }

  double keep(const AttentionDraw& draw, std::int64_t j) const {
    if (s.drop == 0) return 1;
    const std::uint64_t index = draw.index + static_cast<std::uint64_t>(number() * s.keys + j);
    return unit_float(Philox{draw.key}(index / 4)[index % 4]) < s.drop ? 0 : s.keep_scale;
  }
};

template <class F>
void over_rows(const AttentionShape& s, F each) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.queries; ++i) each(Row{s, b, h, i});
    }
  }
}

void forward_row(const Row& r, const Heads<const float>& in, const void* mask, const AttentionDraw& draw, float* out,
                 float* lse) {
  const auto keys = static_cast<std::size_t>(r.s.keys);
  std::vector<double> score(keys);
  double top = kHidden;
  for (std::size_t j = 0; j < keys; ++j) {
    score[j] = r.score(in, mask, static_cast<std::int64_t>(j));
    top = std::max(top, score[j]);
  }
  double total = 0;
  for (std::size_t j = 0; j < keys && top != kHidden; ++j) total += std::exp(score[j] - top);
  for (std::int64_t d = 0; d < r.s.depth; ++d) {
    double sum = 0;
    for (std::int64_t j = 0; j < r.s.keys && total > 0; ++j) {
      sum += std::exp(score[static_cast<std::size_t>(j)] - top) / total * r.keep(draw, j) * in.v[r.value(j) + d];
    }
    out[r.out() + d] = static_cast<float>(sum);
  }
  if (lse != nullptr) lse[r.number()] = static_cast<float>(total > 0 ? top + std::log(total) : kHidden);
}

struct Sums {
  std::vector<double> q, k, v;
};

void backward_row(const Row& r, const Heads<const float>& in, const Buffers& b, const AttentionDraw& draw, Sums& sums) {
  const auto* dout = b.in<float>(0) + r.out();
  const auto* out = b.in<float>(4) + r.out();
  const double lse = b.in<float>(5)[r.number()];
  double delta = 0;
  for (std::int64_t d = 0; d < r.s.depth; ++d) delta += static_cast<double>(dout[d]) * out[d];
  for (std::int64_t j = 0; j < r.s.keys && lse != kHidden; ++j) {
    const double p = std::exp(r.score(in, b.in<void>(6), j) - lse);
    const double keep = r.keep(draw, j);
    double dp = 0;
    for (std::int64_t d = 0; d < r.s.depth; ++d) dp += static_cast<double>(dout[d]) * in.v[r.value(j) + d] * keep;
    const double ds = p * (dp - delta) * r.s.scale;
    for (std::int64_t d = 0; d < r.s.depth; ++d) {
      sums.v[static_cast<std::size_t>(r.value(j) + d)] += p * keep * dout[d];
      sums.k[static_cast<std::size_t>(r.key(j) + d)] += ds * in.q[r.query() + d];
      sums.q[static_cast<std::size_t>(r.query() + d)] += ds * in.k[r.key(j) + d];
    }
  }
}

// Of a tensor of heads: where its numbers lie, within the packed tensor if there is one.
void write(const std::vector<double>& sums, const AttentionShape& s, const HeadStrides& at, std::int64_t tokens,
           std::int64_t heads, float* out) {
  for (std::int64_t b = 0; b < s.batch && out != nullptr; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < heads * s.depth; ++i) {
        const std::int64_t e = b * at.batch + t * at.token + i;
        out[e] = static_cast<float>(sums[static_cast<std::size_t>(e)]);
      }
    }
  }
}

}  // namespace

Prepared attention_ref(const OpCall& call) {
  return function_kernel([s = attention_shape(call, kForwardInputs), packed = is_packed(call, kForwardInputs),
                          key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<float>(0), b.in<float>(1), b.in<float>(2), packed, s);
    const AttentionDraw draw = attention_draw(s, key, b.in<std::uint64_t>(4));
    over_rows(s, [&](const Row& r) { forward_row(r, in, b.in<void>(3), draw, b.out<float>(0), b.out<float>(1)); });
  });
}

Prepared attention_grad_ref(const OpCall& call) {
  return function_kernel([s = attention_shape(call, kBackwardInputs), packed = is_packed(call, kBackwardInputs),
                          key = call.attrs.integer("key", 0)](const Buffers& b) {
    const auto in = heads_of(b.in<float>(1), b.in<float>(2), b.in<float>(3), packed, s);
    const AttentionDraw draw = attention_draw(s, key, b.in<std::uint64_t>(7));
    const auto q_size = static_cast<std::size_t>(s.batch * s.q.batch);
    const auto k_size = static_cast<std::size_t>(s.batch * s.k.batch);
    Sums sums{std::vector<double>(q_size), std::vector<double>(k_size), std::vector<double>(k_size)};
    over_rows(s, [&](const Row& r) { backward_row(r, in, b, draw, sums); });
    const auto out = packed ? heads_of<float>(b.out<float>(0), nullptr, nullptr, true, s)
                            : heads_of(b.out<float>(0), b.out<float>(1), b.out<float>(2), false, s);
    write(sums.q, s, s.q, s.queries, s.heads, out.q);
    write(sums.k, s, s.k, s.keys, s.kv_heads, out.k);
    write(sums.v, s, s.v, s.keys, s.kv_heads, out.v);
  });
}

}  // namespace neap::ops
