// How much an error in a saved tensor matters, measured in passing: one call of backward that reads the tensor runs
// once more, with noise on the tensor, into bytes of the arena that nobody uses at that moment. So a step costs one
// call more, now and then, and not a byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"

namespace neap {

// The noise's square over the tensor's.
inline constexpr double kTrialNoise = 0.01;

struct Trial {
  std::size_t launch = 0;   // instruction
  std::size_t input = 0;    // of the call: what is disturbed
  std::size_t watched = 0;  // of the call: the output that is compared
  std::int64_t elements = 0;
  std::int64_t watched_elements = 0;
  std::int64_t copy = 0;              // arena offsets
  std::vector<std::int64_t> outputs;  // the same, one an output
  bool is_disturbed = true;           // false: the output is only sketched
};

// A sketch of a vector: differences of sketches have the squared length of the difference, to some 10 %.
using Sketch = std::array<double, 256>;

struct TrialResult {
  double change = 0;  // squared length of what the noise changed in the output; 0 when it was not disturbed
  double square = 0;  // of the output
  Sketch sketch{};
};

// The first call of backward that reads the tensor, with room for a second run; none: there is none, or no room.
std::optional<Trial> find_trial(const Plan& plan, const Graph& graph, TensorId tensor);

// Uniform noise from the counter-based generator.
void disturb(const float* src, std::int64_t elements, std::uint64_t key, float* dst);

// `disturbed` is the second run's output; it is not read when there was none.
TrialResult judge(const Trial& trial, const float* disturbed, const float* output);

}  // namespace neap
