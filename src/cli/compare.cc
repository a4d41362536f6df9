// neap compare: the same training under several budgets and policies, side by side in one run.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/stop.h"
#include "cli/train_flags.h"
#include "core/bytes.h"
#include "core/file.h"
#include "neap/error.h"
#include "policy/policy.h"
#include "report/pareto.h"
#include "train/contradictions.h"

namespace neap {
namespace {

struct CompareCommand {
  TrainFlags flags;
  std::vector<std::string> budgets = {"100%", "50%", "min+5%"};
  std::vector<std::string> policies = {"adaptive", "store-all"};
  std::vector<std::string> without;
  std::string chart;
  std::string json;
  std::vector<ParetoPoint> points;  // of all that ran
};

// A budget as it was asked for, and what its runs get.
struct Size {
  std::string asked;
  std::int64_t bytes = 0;
  std::optional<std::int64_t> minimum = {};  // that is above what was asked for; none: it is what was asked for
};

// One policy's run at one budget.
struct Entrant {
  std::string policy;                // its name in tables
  std::unique_ptr<Trainer> trainer;  // null: it does not fit
  std::string why_not;
  std::vector<double> step_ms = {};
};

TrainOptions with(const TrainOptions& base, const std::string& policy, const std::string& budget) {
  TrainOptions out = base;
  out.policy = policy;
  out.budget = budget;
  return out;
}

// "adaptive" with one mechanism less: what is left has to do its work.
TrainOptions without(TrainOptions o, const std::string& mechanism) {
  if (mechanism == "recompute") o.policy = "spill";
  if (mechanism == "optimize") o.optimize = "off";
  if (mechanism == "bits") o.precision = {};  // exact, and nothing that would be of rounding
  if (mechanism == "recurrent") {
    if (o.recurrent.gear == "adaptive") o.recurrent.gear = "whole";
    if (o.recurrent.gates == "adaptive") o.recurrent.gates = "keep";
  }
  if (mechanism == "spill") {
    o.host_ram = 0;
    o.spill_dir.clear();
  }
  return o;
}

// The same bytes for all policies: those of the adaptive one, and never below its minimum plus 5 %.
Size size_of(const std::shared_ptr<const Model>& model, const TrainOptions& base, const std::string& budget) {
  const PlanReport asked = plan_training(model, with(base, "adaptive", budget));
  const std::int64_t minimum = asked.min_budget_bytes;
  if (!asked.feasible) return {.asked = budget, .bytes = minimum + minimum / 20, .minimum = minimum};
  return {.asked = budget, .bytes = asked.budget_bytes.value_or(asked.store_all_bytes)};
}

Entrant start(const std::shared_ptr<const Model>& model, const std::string& name, const TrainOptions& options) {
  Entrant out{.policy = name, .trainer = nullptr, .why_not = {}};
  try {
    out.trainer = std::make_unique<Trainer>(model, options);
  } catch (const DoesNotFit& e) {
    out.why_not = e.what();
  }
  return out;
}

std::vector<Entrant> start_all(const std::shared_ptr<const Model>& model, const CompareCommand& c,
                               const std::string& budget) {
  std::vector<Entrant> out;
  for (const std::string& policy : c.policies) {
    if (is_asked_to_stop()) break;  // none will make a step
    out.push_back(start(model, policy, with(c.flags.options, policy, budget)));
  }
  for (const std::string& mechanism : c.without) {
    if (is_asked_to_stop()) break;
    out.push_back(start(model, "no " + mechanism, without(with(c.flags.options, "adaptive", budget), mechanism)));
  }
  return out;
}

// Step by step in turn, beginning with another one each time: what else the machine does hits all of them alike. What
// one plans beside its steps takes no time from those of others. Whoever asks to stop gets all of them after the same
// step, so that their weights and times still compare.
void race(const std::vector<Entrant*>& entrants, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps && !is_asked_to_stop(); ++step) {
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      Entrant& e = *entrants[(i + static_cast<std::size_t>(step)) % entrants.size()];
      e.step_ms.push_back(e.trainer->advance().step_ms);
      e.trainer->wait_for_plans();
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Agents have settled by then; of short runs, the second half counts.
std::size_t settled_at(std::size_t steps) { return steps > 70 ? 50 : steps / 2; }

double settled_ms(const Entrant& e) {
  const std::size_t from = settled_at(e.step_ms.size());
  return median({e.step_ms.begin() + static_cast<std::ptrdiff_t>(from), e.step_ms.end()});
}

// Median over the settled steps of the ratio to the same step of `base`, which ran at nearly the same time.
double ratio_to(const Entrant& base, const Entrant& e) {
  std::vector<double> ratios;
  for (std::size_t i = settled_at(e.step_ms.size()); i < e.step_ms.size(); ++i) {
    ratios.push_back(e.step_ms[i] / base.step_ms[i]);
  }
  return median(std::move(ratios));
}

Json result_json(const Entrant& e, const CompareCommand& c, std::int64_t budget, const Entrant& base) {
  if (e.trainer) {
    Json out = to_json(e.trainer->summary());
    out["policy"] = e.policy;
    out["feasible"] = true;
    out["same_weights"] = out["weights_hash"] == base.trainer->summary().weights_hash;
    out["settled_step_ms"] = settled_ms(e);
    out["ratio_to_store_all"] = ratio_to(base, e);
    out["all_step_ms"] = e.step_ms;
    return out;
  }
  return {{"summary", true},    {"model", c.flags.options.model},
          {"policy", e.policy}, {"budget_bytes", budget},
          {"feasible", false},  {"reason", e.why_not}};
}

Json row_json(const Entrant& e, const CompareCommand& c, const Size& size, const Entrant& base) {
  Json out = result_json(e, c, size.bytes, base);
  out["asked_budget"] = size.asked;
  out["below_minimum"] = size.minimum.has_value();
  return out;
}

void print_row(const Entrant& e, const Size& size, const Entrant& base) {
  const std::string head = fmt::format("{:<8} {:>11}  {:<13}", size.asked, human_bytes(size.bytes), e.policy);
  if (!e.trainer) {
    write_stdout(fmt::format("{} does not fit\n", head));
    return;
  }
  const Summary s = e.trainer->summary();
  write_stdout(fmt::format("{} {:>11} {:>9.1f} {:>7.3f}x {:>10} {:>10}\n", head, human_bytes(s.peak_bytes),
                           settled_ms(e), ratio_to(base, e), s.violations,
                           s.weights_hash == base.trainer->summary().weights_hash ? "same" : "OTHER"));
}

// Below the table, whose first column has what was asked for.
void print_raised(const std::vector<Size>& sizes) {
  for (const Size& s : sizes) {
    if (!s.minimum) continue;
    write_stdout(fmt::format("{}: below the minimum of {}, so min+5%\n", s.asked, human_bytes(*s.minimum)));
  }
}

// Steps that each made.
std::int64_t compare_at(const std::shared_ptr<const Model>& model, CompareCommand& c, const Size& size,
                        JsonLines& json) {
  const TrainOptions stored = without(with(c.flags.options, "store-all", ""), "bits");
  Entrant base{.policy = "store-all", .trainer = std::make_unique<Trainer>(model, stored), .why_not = {}};
  std::vector<Entrant> entrants = start_all(model, c, std::to_string(size.bytes));
  std::vector<Entrant*> racing = {&base};
  for (Entrant& e : entrants) {
    if (e.trainer) racing.push_back(&e);
  }
  race(racing, c.flags.options.steps);
  if (base.step_ms.empty()) return 0;
  for (const Entrant& e : entrants) {
    json.line(row_json(e, c, size, base));
    if (!json.is_stdout()) print_row(e, size, base);
    if (e.trainer) {
      const std::string name = fmt::format("{} at {}", e.policy, size.asked);
      c.points.push_back({name, e.trainer->summary().peak_bytes, settled_ms(e)});
    }
  }
  return static_cast<std::int64_t>(base.step_ms.size());
}

// How far a comparison came that was asked to stop.
struct Reached {
  std::size_t budgets = 0;  // that came to their end
  std::int64_t steps = 0;   // at the next one
};

Reached compare_all(const std::shared_ptr<const Model>& model, CompareCommand& c, const std::vector<Size>& sizes,
                    JsonLines& json) {
  Reached out;
  while (out.budgets < sizes.size() && !is_asked_to_stop()) {
    out.steps = compare_at(model, c, sizes[out.budgets], json);
    if (out.steps < c.flags.options.steps) break;
    ++out.budgets;
    out.steps = 0;
  }
  return out;
}

void tell_of_interruption(const CompareCommand& c, const Reached& reached) {
  if (reached.budgets == c.budgets.size()) return;
  const std::string rest = reached.steps == 0
                               ? ""
                               : fmt::format("; the rows of {} are of {} of {} steps", c.budgets[reached.budgets],
                                             reached.steps, c.flags.options.steps);
  tell(fmt::format("interrupted: {} of {} budgets came to their end{}", reached.budgets, c.budgets.size(), rest));
}

void write_end(const CompareCommand& c, const std::vector<Size>& sizes, JsonLines& json) {
  json.finish();
  if (!json.is_stdout()) print_raised(sizes);
  if (!json.is_stdout() && c.points.size() > 1) write_stdout("\n" + pareto_text(c.points));
  if (!c.chart.empty()) write_file(c.chart, pareto_svg(c.points, "Memory against time: " + c.flags.options.model));
}

// What train takes one of, and compare a list of. One alone is a list of one. Beside a list it is a slip; with_config()
// leaves no more than one of both where files are in play.
void take_one(const CLI::App& app, const std::string& flag, const std::string& list, std::vector<std::string>& out) {
  const CLI::Option& one = *app.get_option(flag);
  if (one.count() == 0) return;
  const std::string& value = one.results().back();
  if (app.count(list) > 0) {
    throw UserError(fmt::format("{0} {2} beside {1}: compare takes one list; write {1} alone", flag, list, value));
  }
  out = {value};
}

void take_what_is_of_train(CompareCommand& c) {
  const CLI::App& app = *c.flags.app;
  take_one(app, "--budget", "--budgets", c.budgets);
  take_one(app, "--policy", "--policies", c.policies);
  if (c.flags.options.budget_schedule.empty()) return;
  throw UserError("--budget-schedule: compare holds each of --budgets for a whole run; leave the schedule out");
}

// A setting may be for some of the policies only; for none of them is a mistake.
void refuse_contradictions(const CompareCommand& c) {
  std::optional<std::string> first;
  std::vector<std::string> policies = c.policies;
  if (!c.without.empty()) policies.emplace_back("adaptive");  // as those are that lack something
  for (const std::string& policy : policies) {
    const auto text = contradiction_in(with(c.flags.options, policy, ""), c.flags.given());
    if (!text) return;
    if (!first) first = text;
  }
  if (first) throw UserError(*first);
}

int run(CompareCommand& c) {
  take_what_is_of_train(c);
  refuse_one_file_for_two({{"--json", c.json}, {"--chart", c.chart}});
  c.flags.complete();
  refuse_contradictions(c);
  JsonLines json(c.json);
  if (!c.chart.empty()) const AtomicFile probe(c.chart);  // says now that it cannot be written
  const auto model = open_noted_model(c.flags.options.model);
  for (const std::string& policy : c.policies) make_policy(policy);  // UserError before anything is printed
  std::vector<Size> sizes;
  for (const std::string& budget : c.budgets) sizes.push_back(size_of(model, c.flags.options, budget));
  if (!json.is_stdout()) {
    write_stdout(fmt::format("{:<8} {:>11}  {:<13} {:>11} {:>9} {:>8} {:>10} {:>10}\n", "budget", "bytes", "policy",
                             "peak", "step ms", "store-all", "violations", "weights"));
  }
  stop_when_asked();
  const Reached reached = compare_all(model, c, sizes, json);
  if (reached.budgets > 0 || reached.steps > 0) write_end(c, sizes, json);  // else older files stay
  tell_of_interruption(c, reached);
  return 0;
}

}  // namespace

Command add_compare(CLI::App& app) {
  auto command = std::make_shared<CompareCommand>();
  add_train_flags(app, command->flags);
  command->flags.options.steps = 20;
  app.add_option("--steps", command->flags.options.steps, "steps of each run")->check(positive());
  // MODEL may follow each list.
  app.add_option("--budgets", command->budgets, "as --budget takes them, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--policies", command->policies, "as --policy takes them, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option(
         "--without", command->without,
         "adaptive once more, each time without one of recompute, spill, bits, optimize, recurrent (gears and gates)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"recompute", "spill", "bits", "optimize", "recurrent"}));
  app.add_option("--chart", command->chart, "memory against time, with the Pareto front, as FILE.svg");
  app.add_option("--json", command->json, "one summary a budget and policy; - is standard output");
  return [command] { return run(*command); };
}

}  // namespace neap
