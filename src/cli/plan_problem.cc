#include "cli/plan_problem.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "cli/output.h"
#include "core/bytes.h"
#include "core/file.h"
#include "neap/error.h"
#include "remat/problem_json.h"
#include "remat/solve.h"

namespace neap {
namespace {

using remat::Answer;
using remat::Problem;

remat::Method method_of(const std::string& policy) {
  const auto method = remat::method_named(policy);
  if (!method) {
    throw UserError(fmt::format(
        "--policy {}: an abstract problem takes oracle, adaptive, greedy, dtr, store-all, every-layer or sqrt",
        policy));
  }
  return *method;
}

std::int64_t budget_of(const std::string& text, const Problem& problem) {
  if (!text.ends_with('%')) return parse_bytes(text);
  double share = 0;
  const char* end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), end, share);
  if (error != std::errc() || stop != end || !(share >= 0 && share <= 1e6)) {
    throw UserError(fmt::format("--budget '{}' is no percentage", printable(text)));
  }
  const std::int64_t peak = remat::replay(problem, remat::eager_schedule(problem)).peak_bytes;
  return static_cast<std::int64_t>(static_cast<double>(peak) * share / 100);
}

Problem read_problem(const PlanProblemCall& call) {
  const MappedFile file(call.file);
  Problem out = remat::parse_problem({reinterpret_cast<const char*>(file.bytes().data()), file.size()}, call.file,
                                     call.budget.empty());
  if (!call.budget.empty()) out.budget = budget_of(call.budget, out);
  return out;
}

Json to_json(const Problem& problem, const Answer& answer, double seconds) {
  Json schedule = Json::array();
  if (answer.feasible) {
    for (const remat::Step& step : answer.schedule) {
      const bool is_run = step.kind == remat::StepKind::kRun;
      schedule.push_back(
          {is_run ? "run" : "free", is_run ? problem.ops[step.index].name : problem.tensors[step.index].name});
    }
  }
  return {{"feasible", answer.feasible},
          {"budget_bytes", problem.budget},
          {"peak_bytes", answer.peak_bytes},
          {"min_budget_bytes", answer.min_budget_bytes},
          {"baseline_ms", answer.baseline_ms},
          {"total_ms", answer.total_ms},
          {"optimal", answer.optimal},
          {"gap", answer.gap},
          {"seconds", seconds},
          {"schedule", std::move(schedule)}};
}

void print_people(const Problem& problem, const Answer& a, double seconds) {
  std::size_t runs = 0;
  for (const remat::Step& step : a.schedule) runs += step.kind == remat::StepKind::kRun ? 1 : 0;
  const double slower = a.baseline_ms > 0 ? a.total_ms / a.baseline_ms : 1;
  const std::string quality =
      a.optimal ? "proven optimal" : fmt::format("at most {:.1f} % above the optimum", 100 * a.gap);
  fmt::print(
      "budget      {}\npeak        {}\nminimum     {} known\ntime        {:.3f} ms, {:.3f} times every op once, {}\n",
      human_bytes(problem.budget), human_bytes(a.peak_bytes), human_bytes(a.min_budget_bytes), a.total_ms, slower,
      quality);
  fmt::print("runs        {}, of these {} again\nplanned in  {:.3f} s\n", runs, runs - problem.ops.size(), seconds);
}

}  // namespace

int plan_problem(const PlanProblemCall& call) {
  using Clock = std::chrono::steady_clock;
  const remat::Method method = method_of(call.policy);
  const Problem problem = read_problem(call);
  refuse_one_file_for_two({{"--problem", call.file}, {"--json", call.json}});
  JsonLines json(call.json);
  const auto start = Clock::now();
  const Answer answer = remat::solve(problem, {.method = method, .seconds = call.time_limit});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  json.line(to_json(problem, answer, seconds));
  json.finish();
  if (!answer.feasible) {
    throw DoesNotFit(fmt::format("{}: the budget of {} bytes is below the {} bytes that {} reaches", call.file,
                                 problem.budget, answer.min_budget_bytes, call.policy));
  }
  if (!json.is_stdout()) print_people(problem, answer, seconds);
  return 0;
}

}  // namespace neap
