#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/plan_problem.h"
#include "cli/ranges.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "core/file.h"
#include "neap/error.h"
#include "remat/from_graph.h"
#include "remat/problem_json.h"
#include "train/parts.h"
#include "train/setup.h"

namespace neap {
namespace {

struct PlanCommand {
  TrainFlags flags;
  const CLI::Option* model = nullptr;
  std::string json;
  std::string problem;
  std::string problem_out;
  bool explain = true;
  double time_limit = 5;  // seconds, for a problem
};

// Bytes alive from the first instruction to the last, the budget as a line across.
void draw_timeline(const PlanReport& r) {
  constexpr std::size_t kColumns = 96;
  constexpr int kRows = 12;
  if (r.live_bytes.empty()) return;
  const std::int64_t top = std::max(r.budget_bytes && *r.budget_bytes < 2 * r.peak_bytes ? *r.budget_bytes : 0,
                                    *std::max_element(r.live_bytes.begin(), r.live_bytes.end()));
  const std::size_t columns = std::min(kColumns, r.live_bytes.size());
  const auto tick_at = [&](std::size_t column) { return column * r.live_bytes.size() / columns; };
  std::vector<std::int64_t> most(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t end = std::max(tick_at(c) + 1, tick_at(c + 1));
    for (std::size_t t = tick_at(c); t < end; ++t) most[c] = std::max(most[c], r.live_bytes[t]);
  }
  fmt::print("\n");
  for (int row = kRows; row >= 1; --row) {
    const std::int64_t from = top * (row - 1) / kRows;
    const std::int64_t to = top * row / kRows;
    const bool is_budget = r.budget_bytes && from < *r.budget_bytes && *r.budget_bytes <= to;
    std::string line;
    for (const std::int64_t bytes : most) {
      const bool is_state = to <= r.state_bytes;
      const std::int64_t eighths = from >= bytes ? 0 : std::min<std::int64_t>(8, 8 * (bytes - from) / (to - from));
      static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
      line += is_state ? "░" : eighths == 0 && is_budget ? "┄" : kBars[eighths];
    }
    fmt::print("{:>10} {}{}\n", human_bytes(to), line, is_budget ? " budget" : "");
  }
  const auto turn = static_cast<std::size_t>(r.backward_begins) * columns / r.live_bytes.size();
  fmt::print("{:>10} {}\n", "",
             "└" + fmt::format("{:<{}}", " forward", turn > 1 ? turn - 1 : 0) + "└ backward; ░ is state");
}

void print_people(const PlanReport& r, const std::vector<std::string>& advice) {
  fmt::print("state       {}\nstore all   {}\npeak        {} (lower bound {})\nminimum     {}\n",
             human_bytes(r.state_bytes), human_bytes(r.store_all_bytes), human_bytes(r.peak_bytes),
             human_bytes(r.lower_bound_bytes), human_bytes(r.min_budget_bytes));
  if (r.outside_bytes > 0) fmt::print("outside     up to {}, in a file or --host-ram\n", human_bytes(r.outside_bytes));
  fmt::print("step        {:.2f} ms predicted; this and all times below are guesses until a run has timed its calls\n",
             r.predicted_step_ms);
  draw_timeline(r);
  fmt::print("\n{:<32} {:<16} {:>12} {:>12}  {:<10} {:>8}  {}\n", "layer", "action", "kept", "freed", "precision",
             "error", "why");
  for (const PlanReport::Layer& l : r.layers) {
    fmt::print("{:<32} {:<16} {:>12} {:>12}  {:<10} {:>8}  {}\n", l.name, l.action, human_bytes(l.kept_bytes),
               l.freed_bytes > 0 ? human_bytes(l.freed_bytes) : "", l.precision,
               l.error > 0 ? fmt::format("{:.1e}", l.error) : "0", l.reason);
  }
  if (!advice.empty()) fmt::print("\n");
  for (const std::string& line : advice) fmt::print("{}\n", line);
}

// The model's training step as an abstract problem, with the budget as it was asked for.
void write_problem(const PlanCommand& c) {
  const auto model = open_noted_model(c.flags.options.model);
  const Setup setup = make_setup(model, with_settled_parts(model, c.flags.options));
  remat::Problem problem = remat::problem_of(setup.program->graph, setup.program->costs);
  problem.budget = setup.budget.value_or(setup.store_all_bytes);
  AtomicFile file(c.problem_out);
  file.write(remat::to_json_text(problem));
  file.commit();
}

int run(PlanCommand& c) {
  const TrainOptions& o = c.flags.options;
  if (!c.problem.empty()) {
    if (c.model->count() > 0) throw UserError("give a MODEL or --problem, not both");
    return plan_problem({c.problem, o.policy, o.budget, c.json, c.time_limit});
  }
  if (c.model->count() == 0) throw UserError("MODEL is missing (or --problem FILE.json)");
  c.flags.finish();
  if (!c.problem_out.empty()) {
    write_problem(c);
    return 0;
  }
  JsonLines json(c.json);
  const auto model = open_noted_model(o.model);
  const PlanReport report = plan_training(model, o);
  json.line(to_json(report));
  json.finish();
  if (!json.is_stdout()) print_people(report, c.explain ? advise(model, o, report) : std::vector<std::string>());
  if (!report.feasible) {
    throw DoesNotFit(fmt::format("the budget of {} is below the minimum of {}: {}",
                                 human_bytes(report.budget_bytes.value_or(0)), human_bytes(report.min_budget_bytes),
                                 explain_peak(report)));
  }
  return 0;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  add_train_flags(app, command->flags);
  command->model = app.get_option("MODEL")->required(false);
  app.add_option("--json", command->json, "one object; - is standard output");
  app.add_flag("--explain,!--no-explain", command->explain,
               "what more bytes would bring, and which batch and length would fit");
  app.add_option("--problem", command->problem, "plan this abstract problem (JSON) instead of a model");
  app.add_option("--problem-out", command->problem_out, "write the model's step as an abstract problem, and end");
  app.add_option("--time-limit", command->time_limit, "seconds of search for a problem at most")
      ->check(positive())
      ->capture_default_str();
  return [command] { return run(*command); };
}

}  // namespace neap
