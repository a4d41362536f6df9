#include "ops/linear/linear.h"

namespace neap::ops {
namespace {

// Where weight (out o, in i) lies.
std::int64_t at(const LinearShape& s, std::int64_t o, std::int64_t i) {
  return s.transposed ? i * s.out + o : o * s.in + i;
}

}  // namespace

Prepared linear_ref(const OpCall& call) {
  return function_kernel([s = linear_shape(call)](const Buffers& b) {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* x = b.in<float>(0) + r * s.in;
      for (std::int64_t o = 0; o < s.out; ++o) {
        double sum = s.bias ? b.in<float>(2)[o] : 0.0;
        for (std::int64_t i = 0; i < s.in; ++i) sum += static_cast<double>(x[i]) * b.in<float>(1)[at(s, o, i)];
        b.out<float>(0)[r * s.out + o] = static_cast<float>(sum);
      }
    }
  });
}

Prepared linear_grad_ref(const OpCall& call) {
  return function_kernel([s = linear_grad_shape(call)](const Buffers& b) {
    const auto* x = b.in<float>(0);
    const auto* dy = b.in<float>(1);
    for (std::int64_t o = 0; o < s.out; ++o) {
      for (std::int64_t i = 0; i < s.in && b.out<float>(0) != nullptr; ++i) {
        double sum = 0;
        for (std::int64_t r = 0; r < s.rows; ++r) sum += static_cast<double>(x[r * s.in + i]) * dy[r * s.out + o];
        b.out<float>(0)[at(s, o, i)] = static_cast<float>(sum);
      }
      if (b.out<float>(1) == nullptr) continue;
      double sum = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) sum += dy[r * s.out + o];
      b.out<float>(1)[o] = static_cast<float>(sum);
    }
  });
}

}  // namespace neap::ops
