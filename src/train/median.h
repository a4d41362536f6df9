#pragma once

#include <algorithm>
#include <vector>

namespace neap {

// Of at least one; of an even number the upper one of the two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of each entry over all samples.
inline std::vector<double> medians(const std::vector<std::vector<double>>& samples) {
  std::vector<double> out(samples.front().size());
  std::vector<double> each(samples.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t k = 0; k < samples.size(); ++k) each[k] = samples[k][i];
    out[i] = median(each);
  }
  return out;
}

}  // namespace neap
