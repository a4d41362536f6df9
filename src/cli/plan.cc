#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

struct PlanCommand {
  TrainFlags flags;
  std::string json;
};

void print_people(const PlanReport& r) {
  fmt::print("state       {}\nstore all   {}\npeak        {} (lower bound {})\nminimum     {}\n",
             human_bytes(r.state_bytes), human_bytes(r.store_all_bytes), human_bytes(r.peak_bytes),
             human_bytes(r.lower_bound_bytes), human_bytes(r.min_budget_bytes));
  fmt::print("\n{:<32} {:<10} {:>12}  {}\n", "layer", "action", "kept", "why");
  for (const PlanReport::Layer& l : r.layers) {
    fmt::print("{:<32} {:<10} {:>12}  {}\n", l.name, l.action, human_bytes(l.kept_bytes), l.reason);
  }
}

int run(PlanCommand& c) {
  c.flags.finish();
  JsonLines json(c.json);
  const PlanReport report = plan_training(open_noted_model(c.flags.options.model), c.flags.options);
  json.line(to_json(report));
  json.finish();
  if (!json.is_stdout()) print_people(report);
  if (!report.feasible) {
    throw DoesNotFit(fmt::format("the budget of {} is below the minimum of {} ({} of it state)",
                                 human_bytes(report.budget_bytes.value_or(0)), human_bytes(report.min_budget_bytes),
                                 human_bytes(report.state_bytes)));
  }
  return 0;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  add_train_flags(app, command->flags);
  app.add_option("--json", command->json, "one object; - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
