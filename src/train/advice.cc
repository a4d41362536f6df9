#include "train/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"
#include "neap/error.h"
#include "neap/train.h"
#include "plan/simulate.h"
#include "train/fit.h"
#include "train/parts.h"
#include "train/setup.h"

namespace neap {
namespace {

double predicted_ms(const Plan& plan, const PlanningProblem& p) { return simulate(plan, p.costs, p.link).ms; }

std::string share_text(double from, double to) { return fmt::format("{:.1f} %", 100 * (1 - to / from)); }

// What the decisions of the plan cost against storing everything.
std::string price(const AdviceProblem& a, double now, double stored) {
  return fmt::format("Below store-all by {}, for {:.2f} ms more a step ({:.1f} %).",
                     human_bytes(std::max<std::int64_t>(0, a.store_all_bytes - a.plan.peak_bytes)),
                     std::max(0.0, now - stored) * (a.pace > 0 ? a.pace : 1), 100 * std::max(0.0, now / stored - 1));
}

}  // namespace

std::vector<std::string> advise_on_bytes(const AdviceProblem& a) {
  if (a.budget >= a.store_all_bytes) return {};
  constexpr double kWorthwhile = 0.01;
  const double now = predicted_ms(a.plan, a.problem);
  const double stored = predicted_ms(plan_within(store_all_policy(), a.problem, std::nullopt), a.problem);
  if (!(now > 0) || !(stored > 0)) return {};
  std::vector<std::string> out = {price(a, now, stored)};
  const std::int64_t gap = a.store_all_bytes - a.budget;
  double best = now;
  for (const int eighths : {1, 2, 4}) {
    const std::int64_t more = gap * eighths / 8;
    const double then = predicted_ms(plan_within(a.policy, a.problem, a.budget + more), a.problem);
    if (then > best * (1 - kWorthwhile)) continue;
    best = then;
    out.push_back(fmt::format("With {} more ({} in all) a step would take {} less.", human_bytes(more),
                              human_bytes(a.budget + more), share_text(now, then)));
  }
  if (stored < best * (1 - kWorthwhile)) {
    out.push_back(fmt::format("With {} more ({} in all) everything is stored, and a step takes {} less.",
                              human_bytes(gap), human_bytes(a.store_all_bytes), share_text(now, stored)));
  }
  return out;
}

namespace {

// In how many parts the batch would fit, if in any; `field` is one of the two ways to cut it.
std::optional<std::int64_t> parts_that_fit(const std::shared_ptr<const Model>& model, TrainOptions options,
                                           std::int64_t TrainOptions::*field, std::int64_t budget) {
  if (options.*field != 1) return std::nullopt;
  options.*field = 0;
  options.budget = std::to_string(budget);
  options.budget_schedule.clear();
  try {
    const TrainOptions parts = with_settled_parts(model, options);
    if (plan_training(model, parts).feasible) return parts.*field;
  } catch (const UserError&) {  // batch norm, say
  }
  return std::nullopt;
}

// Advice ends no run: where a size cannot be had at all, or the device has no room to look, nothing is said.
std::optional<FittingSizes> sizes_if_any(const std::shared_ptr<const Model>& model, const TrainOptions& options,
                                         const std::string& what, std::int64_t budget) {
  try {
    return fitting_sizes(model, options, what, budget);
  } catch (const std::exception&) {  // an application's own model may say so in its own way
  }
  return std::nullopt;
}

// "Batches of up to 96 fit into 20 MiB; with everything stored up to 24."
std::string size_text(std::string_view what, const FittingSizes& sizes, std::int64_t budget) {
  const std::string most = sizes.is_all ? fmt::format("{} and more", sizes.largest) : std::to_string(sizes.largest);
  const std::string stored = sizes.store_all_largest == 0 ? "none does"
                             : sizes.store_all_largest == sizes.largest
                                 ? "the same do"
                                 : fmt::format("up to {}", sizes.store_all_largest);
  return fmt::format("{} of up to {} fit into {}; with everything stored {}.", what, most, human_bytes(budget), stored);
}

void advise_on_parts(const std::shared_ptr<const Model>& model, const TrainOptions& options, std::int64_t budget,
                     std::vector<std::string>& out) {
  if (const auto parts = parts_that_fit(model, options, &TrainOptions::split, budget)) {
    out.push_back(
        fmt::format("In {} parts that take turns layer by layer (--split {}) this batch fits.", *parts, *parts));
  }
  if (const auto parts = parts_that_fit(model, options, &TrainOptions::accumulate, budget)) {
    out.push_back(fmt::format("Computed in {} parts (--accumulate {}) this batch fits.", *parts, *parts));
  }
}

}  // namespace

void advise_on_sizes(const std::shared_ptr<const Model>& model, const TrainOptions& options, std::int64_t budget,
                     std::vector<std::string>& out) {
  if (const auto batch = sizes_if_any(model, options, "batch", budget)) {
    out.push_back(batch->largest > 0 ? size_text("Batches", *batch, budget) : "No batch fits, not even one of 1.");
  }
  if (const auto length = sizes_if_any(model, options, "length", budget)) {
    out.push_back(length->largest > 0 ? size_text("At this batch, sequences", *length, budget)
                                      : "At this batch, sequences of no length fit.");
  }
}

std::vector<std::string> advise(const std::shared_ptr<const Model>& model, const TrainOptions& given,
                                const PlanReport& report) {
  if (!report.budget_bytes) return {};
  const TrainOptions options = with_settled_parts(model, given);
  std::vector<std::string> out;
  if (report.feasible && *report.budget_bytes < report.store_all_bytes) {
    const Setup setup = make_setup(model, options);
    StoredLevels stored;
    const PlanningProblem problem = setup.problem(*setup.program, nullptr, stored);
    const Plan plan = plan_within(*setup.policy, problem, setup.budget);
    out = advise_on_bytes({*setup.policy, problem, plan, *report.budget_bytes, report.store_all_bytes});
  } else if (!report.feasible) {
    out.push_back(fmt::format("{} are missing: the minimum is {}.",
                              human_bytes(report.min_budget_bytes - *report.budget_bytes),
                              human_bytes(report.min_budget_bytes)));
    advise_on_parts(model, options, *report.budget_bytes, out);
  }
  advise_on_sizes(model, options, *report.budget_bytes, out);
  return out;
}

}  // namespace neap
