// neap compare: the same training under several budgets and policies, side by side in one run.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "neap/error.h"
#include "policy/policy.h"

namespace neap {
namespace {

struct CompareCommand {
  TrainFlags flags;
  std::vector<std::string> budgets = {"100%", "50%", "min+5%"};
  std::vector<std::string> policies = {"adaptive", "store-all"};
  std::string json;
};

// One policy's run at one budget.
struct Entrant {
  std::string policy;
  std::unique_ptr<Trainer> trainer;  // null: it does not fit
  std::string why_not;
};

TrainOptions with(const TrainOptions& base, const std::string& policy, const std::string& budget) {
  TrainOptions out = base;
  out.policy = policy;
  out.budget = budget;
  return out;
}

// The same bytes for all policies: those of the adaptive one, and never below its minimum plus 5 %.
std::int64_t bytes_of(const std::shared_ptr<const Model>& model, const TrainOptions& base, const std::string& budget) {
  const PlanReport asked = plan_training(model, with(base, "adaptive", budget));
  if (asked.feasible) return asked.budget_bytes.value_or(asked.store_all_bytes);
  return asked.min_budget_bytes + asked.min_budget_bytes / 20;
}

std::vector<Entrant> start_all(const std::shared_ptr<const Model>& model, const CompareCommand& c,
                               const std::string& budget) {
  std::vector<Entrant> out;
  for (const std::string& policy : c.policies) {
    Entrant entrant{.policy = policy, .trainer = nullptr, .why_not = {}};
    try {
      entrant.trainer = std::make_unique<Trainer>(model, with(c.flags.options, policy, budget));
    } catch (const DoesNotFit& e) {
      entrant.why_not = e.what();
    }
    out.push_back(std::move(entrant));
  }
  return out;
}

// Step by step in turn, beginning with another one each time: what else the machine does hits all of them alike.
void race(std::vector<Trainer*> trainers, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      trainers[(i + static_cast<std::size_t>(step)) % trainers.size()]->advance();
    }
  }
}

Json row_json(const Entrant& e, const CompareCommand& c, std::int64_t budget) {
  if (e.trainer) {
    Json out = to_json(e.trainer->summary());
    out["feasible"] = true;
    return out;
  }
  return {{"summary", true},    {"model", c.flags.options.model},
          {"policy", e.policy}, {"budget_bytes", budget},
          {"feasible", false},  {"reason", e.why_not}};
}

void print_row(const Entrant& e, const std::string& budget, std::int64_t bytes, const Summary& base) {
  const std::string head = fmt::format("{:<8} {:>11}  {:<11}", budget, human_bytes(bytes), e.policy);
  if (!e.trainer) {
    write_stdout(fmt::format("{} does not fit\n", head));
    return;
  }
  const Summary s = e.trainer->summary();
  write_stdout(fmt::format("{} {:>11} {:>9.1f} {:>7.3f}x {:>10} {:>10}\n", head, human_bytes(s.peak_bytes),
                           s.median_step_ms, s.median_step_ms / base.median_step_ms, s.violations,
                           s.weights_hash == base.weights_hash ? "same" : "OTHER"));
}

void compare_at(const std::shared_ptr<const Model>& model, const CompareCommand& c, const std::string& budget,
                std::int64_t bytes, JsonLines& json) {
  Trainer base(model, with(c.flags.options, "store-all", ""));
  std::vector<Entrant> entrants = start_all(model, c, std::to_string(bytes));
  std::vector<Trainer*> trainers = {&base};
  for (const Entrant& e : entrants) {
    if (e.trainer) trainers.push_back(e.trainer.get());
  }
  race(trainers, c.flags.options.steps);
  const Summary summary = base.summary();
  for (const Entrant& e : entrants) {
    json.line(row_json(e, c, bytes));
    if (!json.is_stdout()) print_row(e, budget, bytes, summary);
  }
}

int run(CompareCommand& c) {
  c.flags.finish();
  JsonLines json(c.json);
  const auto model = open_noted_model(c.flags.options.model);
  for (const std::string& policy : c.policies) make_policy(policy);  // UserError before anything is printed
  std::vector<std::int64_t> bytes;
  for (const std::string& budget : c.budgets) bytes.push_back(bytes_of(model, c.flags.options, budget));
  if (!json.is_stdout()) {
    write_stdout(fmt::format("{:<8} {:>11}  {:<11} {:>11} {:>9} {:>8} {:>10} {:>10}\n", "budget", "bytes", "policy",
                             "peak", "step ms", "store-all", "violations", "weights"));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) compare_at(model, c, c.budgets[i], bytes[i], json);
  json.finish();
  return 0;
}

}  // namespace

Command add_compare(CLI::App& app) {
  auto command = std::make_shared<CompareCommand>();
  add_train_flags(app, command->flags);
  command->flags.options.steps = 20;
  app.add_option("--steps", command->flags.options.steps, "steps of each run")->check(CLI::PositiveNumber);
  app.add_option("--budgets", command->budgets, "as --budget takes them, with commas between")->delimiter(',');
  app.add_option("--policies", command->policies, "as --policy takes them, with commas between")->delimiter(',');
  app.add_option("--json", command->json, "one summary a budget and policy; - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
