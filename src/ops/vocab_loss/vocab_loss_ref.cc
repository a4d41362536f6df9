#include <cmath>
#include <vector>

#include "ops/cross_entropy/classes.h"
#include "ops/vocab_loss/vocab_loss.h"

namespace neap::ops {
namespace {

struct RefRow {
  const VocabShape& s;
  const Buffers& b;
  std::int64_t row;

  double logit(std::int64_t c) const {
    double sum = s.bias ? b.in<float>(2)[c] : 0.0;
    for (std::int64_t i = 0; i < s.in; ++i) {
      sum += static_cast<double>(b.in<float>(0)[row * s.in + i]) * b.in<float>(1)[c * s.in + i];
    }
    return sum;
  }
};

// Every logit is computed as often as it is needed: nothing is kept. The third output is the weight's gradient, or the
// logits'.
void run(const VocabShape& s, const Buffers& b, bool keeps_delta) {
  const void* targets = b.in<void>(3);
  const double scale = loss_scale(s.classes, targets, s.mean);
  const std::int64_t n = s.classes.classes;
  for (std::int64_t i = 0; i < s.rows * s.in; ++i) b.out<float>(1)[i] = 0;
  for (std::int64_t i = 0; i < n * (keeps_delta ? s.rows : s.in); ++i) b.out<float>(2)[i] = 0;
  for (std::int64_t i = 0; i < n && b.out<float>(3) != nullptr; ++i) b.out<float>(3)[i] = 0;
  double loss = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t target = target_at(s.classes, targets, r);
    if (!is_counted(s.classes, target)) continue;
    const RefRow row{s, b, r};
    double top = row.logit(0);
    for (std::int64_t c = 1; c < n; ++c) top = std::max(top, row.logit(c));
    double sum = 0;
    for (std::int64_t c = 0; c < n; ++c) sum += std::exp(row.logit(c) - top);
    const double lse = top + std::log(sum);
    loss += lse - row.logit(target);
    for (std::int64_t c = 0; c < n; ++c) {
      const double g = scale * (std::exp(row.logit(c) - lse) - (c == target ? 1 : 0));
      for (std::int64_t i = 0; i < s.in; ++i) {
        b.out<float>(1)[r * s.in + i] += static_cast<float>(g * b.in<float>(1)[c * s.in + i]);
        if (!keeps_delta) b.out<float>(2)[c * s.in + i] += static_cast<float>(g * b.in<float>(0)[r * s.in + i]);
      }
      if (keeps_delta) b.out<float>(2)[delta_places(s).at(r, c)] = static_cast<float>(g);
      if (b.out<float>(3) != nullptr) b.out<float>(3)[c] += static_cast<float>(g);
    }
  }
  *b.out<float>(0) = static_cast<float>(loss * scale);
}

}  // namespace

Prepared vocab_loss_ref(const OpCall& call) {
  return function_kernel([s = vocab_shape(call)](const Buffers& b) { run(s, b, false); });
}

Prepared vocab_delta_ref(const OpCall& call) {
  return function_kernel([s = vocab_shape(call)](const Buffers& b) { run(s, b, true); });
}

Prepared vocab_weight_ref(const OpCall& call) {
  const VocabShape s = delta_shape(call.shape(0), call.shape(1));
  return function_kernel([s, places = delta_places(s), first = call.attrs.integer("first"),
                          count = call.attrs.integer("count")](const Buffers& b) {
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t i = 0; i < s.in; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < s.rows; ++r) {
          sum += static_cast<double>(b.in<float>(1)[places.at(r, first + c)]) * b.in<float>(0)[r * s.in + i];
        }
        b.out<float>(0)[c * s.in + i] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace neap::ops
