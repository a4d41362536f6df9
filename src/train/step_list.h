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

// --length-schedule: the same with lengths, from 1 up to `longest`.
struct StepLength {
  std::int64_t step = 0;
  std::int64_t length = 0;
};
std::vector<StepLength> parse_length_schedule(std::string_view text, std::int64_t longest);

}  // namespace neap
