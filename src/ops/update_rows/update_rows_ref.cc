#include <algorithm>
#include <vector>

#include "ops/update/update.h"
#include "ops/update_rows/update_rows.h"

namespace neap::ops {
namespace {

// Takes the step of one row, whose gradient is in double.
void step_row(const UpdateRows& u, const Buffers& b, std::int64_t row, const std::vector<double>& gradient) {
  if (is_put_off(b.in<float>(kHyper))) return;
  for (std::int64_t c = 0; c < u.width; ++c) {
    const std::int64_t at = row * u.width + c;
    const double g = gradient[static_cast<std::size_t>(c)];
    float& param = b.state<float>(0)[at];
    if (u.rule == UpdateRule::kAdam) {
      adam_ref_step(param, g, b.state<float>(2)[at], b.state<float>(3)[at], b.in<float>(kHyper), nullptr, u.decoupled);
    } else {
      float* momentum = u.rule == UpdateRule::kMomentum ? b.state<float>(2) + at : nullptr;
      sgd_ref_step(param, g, momentum, b.in<float>(kHyper), nullptr, u.nesterov);
    }
  }
}

}  // namespace

Prepared rest_update_ref(const OpCall& call) {
  return function_kernel([u = update_rows_of(call)](const Buffers& b) {
    std::vector<bool> is_picked(static_cast<std::size_t>(u.rows));
    const float* grad = b.in<float>(1);
    std::int64_t at = 0;
    for (std::size_t l = 0; l < u.lookups.size(); ++l) {
      check_indices("embedding", u.lookups[l], u.ids(b, l));
      for (std::int64_t i = 0; i < u.lookups[l].count; ++i) {
        const std::int64_t row = u.lookups[l].at(u.ids(b, l), i);
        is_picked[static_cast<std::size_t>(row)] = true;
        for (std::int64_t c = 0; c < u.width; ++c, ++at) {
          const float before = b.in<float>(kKept) != nullptr ? b.in<float>(kKept)[at] : 0;
          b.out<float>(0)[at] = row >= u.first && row < u.last ? grad[(row - u.first) * u.width + c] : before;
        }
      }
    }
    for (std::int64_t row = u.first; row < u.last; ++row) {
      const float* of_row = grad + (row - u.first) * u.width;
      if (!is_picked[static_cast<std::size_t>(row)]) step_row(u, b, row, std::vector<double>(of_row, of_row + u.width));
    }
  });
}

Prepared rows_update_ref(const OpCall& call) {
  return function_kernel([u = update_rows_of(call)](const Buffers& b) {
    const float* rows = b.in<float>(1);
    std::vector<std::vector<double>> gradients(static_cast<std::size_t>(u.rows));  // empty: not picked
    for (std::size_t l = 0; l < u.lookups.size(); ++l) {
      check_indices("embedding", u.lookups[l], u.ids(b, l));
      const float* dy = u.dy(b, l);
      for (std::int64_t i = 0; i < u.lookups[l].count; ++i, rows += u.width) {
        auto& sum = gradients[static_cast<std::size_t>(u.lookups[l].at(u.ids(b, l), i))];
        if (sum.empty()) sum.assign(rows, rows + u.width);
        for (std::int64_t c = 0; c < u.width; ++c) sum[static_cast<std::size_t>(c)] += dy[i * u.width + c];
      }
    }
    for (std::int64_t row = 0; row < u.rows; ++row) {
      const auto& gradient = gradients[static_cast<std::size_t>(row)];
      if (!gradient.empty()) step_row(u, b, row, gradient);
    }
  });
}

}  // namespace neap::ops
