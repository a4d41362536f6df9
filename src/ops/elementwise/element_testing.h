// For tests: tensors of any type from numbers, and back.
#pragma once

#include "ops/elementwise/element.h"
#include "ops/evaluate.h"

namespace neap {

inline HostTensor tensor_from(DType type, const Shape& shape, const std::vector<double>& values) {
  HostTensor t({type, shape});
  for (std::size_t i = 0; i < values.size(); ++i) {
    ops::set_real(type, t.data.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return t;
}

inline std::vector<double> numbers_of(const HostTensor& t) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < t.type.elements(); ++i) values.push_back(ops::real_at(t.type.dtype, t.data.data(), i));
  return values;
}

}  // namespace neap
