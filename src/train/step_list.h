// Lists of what changes at which step: STEP:VALUE,STEP:VALUE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neap {

struct StepValue {
  std::int64_t step = 0;  // the first that runs with it; 1 is the first of a run
  std::string value;
  friend bool operator==(const StepValue&, const StepValue&) = default;
};

// Steps from 1 up, ascending. UserError names `flag` and the part that is wrong.
std::vector<StepValue> parse_step_list(std::string_view text, std::string_view flag);

// The same with numbers from 1 up.
struct StepCount {
  std::int64_t step = 0;
  std::int64_t count = 0;
  friend bool operator==(const StepCount&, const StepCount&) = default;
};

// --length-schedule: time steps, up to `longest`.
std::vector<StepCount> parse_length_schedule(std::string_view text, std::int64_t longest);
// --batch-schedule: samples.
std::vector<StepCount> parse_batch_schedule(std::string_view text);

}  // namespace neap
