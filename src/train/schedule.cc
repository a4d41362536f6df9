#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "neap/error.h"

namespace neap {
namespace {

double parse_number(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) {
    throw UserError(fmt::format("schedule: '{}' is not a number for '{}'", text, key));
  }
  return value;
}

void set(ScheduleOptions& o, std::string_view key, double value) {
  const bool is_falls = key == "every" || key == "factor";
  const bool is_of_this = is_falls ? o.name == "step" : key != "floor" || o.name == "cosine" || o.name == "linear";
  if (!is_of_this) {
    throw UserError(
        fmt::format("schedule {} has no '{}'; {} has", o.name, key, is_falls ? "step" : "cosine or linear"));
  }
  if (key == "warmup") {
    o.warmup = static_cast<std::int64_t>(value);
  } else if (key == "every") {
    o.every = static_cast<std::int64_t>(value);
  } else if (key == "factor") {
    o.factor = value;
  } else if (key == "floor") {
    o.floor = value;
  } else {
    throw UserError(fmt::format("schedule has no '{}'; it has warmup, every, factor and floor", key));
  }
}

}  // namespace

void check(const ScheduleOptions& o) {
  const bool is_known = o.name == "constant" || o.name == "step" || o.name == "cosine" || o.name == "linear";
  if (!is_known)
    throw UserError(fmt::format("schedule '{}' is not known; take constant, step, cosine or linear", o.name));
  if (o.warmup < 0) throw UserError("schedule: warmup must not be negative");
  if (o.every <= 0) throw UserError("schedule: every must be at least 1");
  if (!(o.factor > 0)) throw UserError("schedule: factor must be above 0");
  if (!(o.floor >= 0 && o.floor <= 1)) throw UserError("schedule: floor must be from 0 to 1");
}

double learning_rate(double base, std::int64_t step, std::int64_t steps, const ScheduleOptions& o) {
  if (step <= o.warmup) return base * static_cast<double>(step) / static_cast<double>(o.warmup);
  const std::int64_t done = step - 1 - o.warmup;
  if (o.name == "step") {
    const std::int64_t falls = done / o.every;
    return base * std::pow(o.factor, static_cast<double>(falls));
  }
  if (o.name == "constant") return base;
  const auto span = static_cast<double>(std::max<std::int64_t>(1, steps - o.warmup));
  const double share = std::min(1.0, static_cast<double>(done) / span);
  const double falling = o.name == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * share)) : 1 - share;
  return base * (o.floor + (1 - o.floor) * falling);
}

ScheduleOptions parse_schedule(std::string_view text) {
  ScheduleOptions out;
  const std::size_t colon = text.find(':');
  out.name = std::string(text.substr(0, colon));
  std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) throw UserError(fmt::format("schedule: '{}' is not NAME=NUMBER", part));
    set(out, part.substr(0, equals), parse_number(part.substr(0, equals), part.substr(equals + 1)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  check(out);
  return out;
}

}  // namespace neap
