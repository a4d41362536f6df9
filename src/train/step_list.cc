#include "train/step_list.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>

#include "neap/error.h"

namespace neap {
namespace {

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t out = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (status != std::errc() || end != text.data() + text.size() || out < 1) return std::nullopt;
  return out;
}

// `rule` is what a value that is none breaks.
std::vector<StepCount> parse_counts(std::string_view text, std::string_view flag, std::int64_t most,
                                    std::string_view rule) {
  std::vector<StepCount> out;
  for (const StepValue& part : parse_step_list(text, flag)) {
    const auto count = parse_count(part.value);
    if (!count || *count > most) throw UserError(fmt::format("{} '{}:{}': {}", flag, part.step, part.value, rule));
    out.push_back({part.step, *count});
  }
  return out;
}

}  // namespace

std::vector<StepValue> parse_step_list(std::string_view text, std::string_view flag) {
  std::vector<StepValue> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t colon = part.find(':');
    const auto step = colon == std::string_view::npos ? std::nullopt : parse_count(part.substr(0, colon));
    if (!step || colon + 1 == part.size()) {
      throw UserError(fmt::format("{} '{}': write STEP:VALUE,STEP:VALUE with steps from 1 up", flag, part));
    }
    if (!out.empty() && *step <= out.back().step) {
      throw UserError(fmt::format("{} '{}': step {} does not come after step {}", flag, part, *step, out.back().step));
    }
    out.push_back({*step, std::string(part.substr(colon + 1))});
    if (comma != std::string_view::npos && comma + 1 == text.size()) {
      throw UserError(fmt::format("{} '{}': there is nothing behind the last comma", flag, text));
    }
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

std::vector<StepCount> parse_length_schedule(std::string_view text, std::int64_t longest) {
  return parse_counts(text, "--length-schedule", longest,
                      fmt::format("lengths go from 1 to the --length of {}", longest));
}

std::vector<StepCount> parse_batch_schedule(std::string_view text) {
  return parse_counts(text, "--batch-schedule", std::numeric_limits<std::int32_t>::max(),
                      "a batch has a number of samples from 1 up");
}

}  // namespace neap
