#include "report/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/bytes.h"
#include "core/json_depth.h"
#include "neap/error.h"

namespace neap {
namespace {

// Files come from anywhere: a field that is missing or of another type counts as not known.
double number_of(const Json& object, const char* key, double otherwise = 0) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : otherwise;
}

std::int64_t count_of(const Json& object, const char* key, std::int64_t otherwise = 0) {
  const double value = number_of(object, key, static_cast<double>(otherwise));
  constexpr double kMost = 9e18;
  return std::isfinite(value) && std::abs(value) < kMost ? static_cast<std::int64_t>(value) : otherwise;
}

bool is_true(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

RunPoint point_of(const Json& o) {
  return {.step = count_of(o, "step"),
          .count = 1,
          .loss = number_of(o, "loss", std::numeric_limits<double>::quiet_NaN()),
          .step_ms = number_of(o, "step_ms"),
          .predicted_ms = number_of(o, "predicted_ms"),
          .peak_bytes = count_of(o, "peak_bytes"),
          .budget_bytes = count_of(o, "budget_bytes", -1),
          .spilled_bytes = number_of(o, "spilled_bytes"),
          .stalled_ms = number_of(o, "stalled_ms"),
          .recomputed_ms = number_of(o, "recomputed_ms"),
          .plan = count_of(o, "plan_id")};
}

RunPoint merged(const RunPoint& a, const RunPoint& b) {
  if (a.count == 0) return b;
  const double share = static_cast<double>(b.count) / static_cast<double>(a.count + b.count);
  const auto mean = [&](double x, double y) { return x + (y - x) * share; };
  const auto least = [](std::int64_t x, std::int64_t y) { return x < 0 ? y : y < 0 ? x : std::min(x, y); };
  RunPoint out{.step = b.step, .count = a.count + b.count};
  out.loss = mean(a.loss, b.loss);
  out.step_ms = mean(a.step_ms, b.step_ms);
  out.predicted_ms = a.predicted_ms > 0 && b.predicted_ms > 0 ? mean(a.predicted_ms, b.predicted_ms) : b.predicted_ms;
  out.peak_bytes = std::max(a.peak_bytes, b.peak_bytes);
  out.budget_bytes = least(a.budget_bytes, b.budget_bytes);
  out.spilled_bytes = mean(a.spilled_bytes, b.spilled_bytes);
  out.stalled_ms = mean(a.stalled_ms, b.stalled_ms);
  out.recomputed_ms = mean(a.recomputed_ms, b.recomputed_ms);
  out.plan = b.plan;
  return out;
}

// Columns are shorter than objects.
template <class Value>
Json column(const std::vector<RunPoint>& points, Value value) {
  Json out = Json::array();
  for (const RunPoint& p : points) out.push_back(value(p));
  return out;
}

Json known(double value) { return std::isfinite(value) && value > 0 ? Json(value) : Json(nullptr); }
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Of neap compare, whose rows are summaries of runs.
bool is_row(const Json& o) { return o.contains("asked_budget"); }

std::string budget_text(std::int64_t bytes) { return bytes < 0 ? "no budget" : human_bytes(bytes); }

}  // namespace

void RunRecord::note(std::int64_t step, std::string kind, std::string text) {
  ++changes_seen_;
  if (changes_.size() < kMostNotes)
    changes_.push_back({{"step", step}, {"kind", std::move(kind)}, {"what", std::move(text)}});
}

void RunRecord::add_step(const Json& o) {
  const RunPoint p = point_of(o);
  if (++steps_ == 1) {
    first_step_ = p.step;
    first_plan_ = o.contains("plan") ? p.plan : 0;
  }
  if (p.budget_bytes != budget_ && budget_ != -2) {
    note(p.step, "budget", fmt::format("from {} to {}", budget_text(budget_), budget_text(p.budget_bytes)));
  }
  budget_ = p.budget_bytes;
  if (const auto plan = o.find("plan"); plan != o.end() && plan->is_object()) {
    if (plans_seen_++ > 0) {
      note(p.step, "plan", fmt::format("plan {}: peak {}", p.plan, human_bytes(count_of(*plan, "peak_bytes"))));
    }
    if (plans_.size() >= kMostPlans) plans_.erase(plans_.begin() + 1);  // the first one stays, and the last ones
    plans_.push_back({{"id", p.plan}, {"step", p.step}, {"length", count_of(o, "length")}, {"plan", *plan}});
  }
  if (const auto text = o.find("note"); text != o.end() && text->is_string())
    note(p.step, "note", text->get<std::string>());
  open_ = merged(open_, p);
  if (open_.count < stride_) return;
  points_.push_back(open_);
  open_ = {.count = 0};
  if (points_.size() >= kMostPoints) merge();
}

void RunRecord::merge() {
  for (std::size_t i = 0; i < points_.size() / 2; ++i) points_[i] = merged(points_[2 * i], points_[2 * i + 1]);
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

void RunRecord::add(const Json& o) {
  if (!o.is_object()) throw UserError("it is no object");
  if (is_row(o)) {
    has_rows_ = true;
    throw UserError("it is a row of neap compare");
  }
  if (is_true(o, "summary")) {
    summary_ = o;
  } else if (is_true(o, "eval")) {
    ++evals_seen_;
    if (evals_.size() < kMostPoints) evals_.push_back(o);
  } else if (o.contains("step") && o["step"].is_number() && o.contains("loss")) {
    add_step(o);
  } else {
    throw UserError("it is neither a step nor an evaluation nor a summary");
  }
}

void RunRecord::add_lines(std::string_view text, const std::string& name) {
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      if (is_nested_deeply(line)) throw UserError("it is nested too deeply");
      add(Json::parse(line));
    } catch (const std::exception&) {
      if (unreadable_++ == 0) first_unreadable_ = number;
    }
  }
  refuse_nothing(name);
}

void RunRecord::refuse_nothing(const std::string& name) const {
  if (steps_ > 0 || !summary_.is_null()) return;
  const char* what =
      has_rows_ ? "it has rows of neap compare, not the steps of one run" : "there is no step of a training run in it";
  throw UserError(fmt::format("'{}': {}; give what neap train --json FILE has written", name, what));
}

// A run's first line, resumed or not, tells the plan, which is its number 1. Parts of a batch (--accumulate) may have
// run several by then.
bool RunRecord::begins_with_the_run() const {
  const bool has_parts = count_of(summary_, "accumulate", 1) > 1;
  return first_step_ <= 1 || first_plan_ == 1 || (has_parts && first_plan_ > 1);
}

std::string RunRecord::problem() const {
  std::string out;
  const auto say = [&](const std::string& text) { out += (out.empty() ? "" : " ") + text; };
  if (unreadable_ > 0) {
    say(fmt::format("{} of the run's lines could not be read (the first is line {}) and {} left out.", unreadable_,
                    first_unreadable_, unreadable_ == 1 ? "is" : "are"));
  }
  if (!begins_with_the_run()) {
    say(fmt::format("The run's first steps are missing: the first that is here is step {}.", first_step_));
  }
  if (summary_.is_null()) {
    say(fmt::format("The run did not end, or its end is lost: there is no summary. Shown are {} steps.", steps_));
  }
  return out;
}

Json RunRecord::to_json() const {
  std::vector<RunPoint> points = points_;
  if (open_.count > 0) points.push_back(open_);
  Json columns = {
      {"step", column(points, [](const RunPoint& p) { return p.step; })},
      {"count", column(points, [](const RunPoint& p) { return p.count; })},
      {"loss", column(points, [](const RunPoint& p) { return finite(p.loss); })},
      {"step_ms", column(points, [](const RunPoint& p) { return known(p.step_ms); })},
      {"predicted_ms", column(points, [](const RunPoint& p) { return known(p.predicted_ms); })},
      {"peak_bytes", column(points, [](const RunPoint& p) { return p.peak_bytes; })},
      {"budget_bytes",
       column(points, [](const RunPoint& p) { return p.budget_bytes < 0 ? Json(nullptr) : Json(p.budget_bytes); })},
      {"spilled_bytes", column(points, [](const RunPoint& p) { return finite(p.spilled_bytes); })},
      {"stalled_ms", column(points, [](const RunPoint& p) { return finite(p.stalled_ms); })},
      {"recomputed_ms", column(points, [](const RunPoint& p) { return finite(p.recomputed_ms); })},
      {"plan", column(points, [](const RunPoint& p) { return p.plan; })}};
  return {{"problem", problem()},
          {"summary", summary_},
          {"steps", steps_},
          {"stride", stride_},
          {"points", columns},
          {"plans_seen", plans_seen_},
          {"plans", plans_},
          {"evals", evals_},
          {"evals_seen", evals_seen_},
          {"changes", changes_},
          {"changes_seen", changes_seen_}};
}

}  // namespace neap
