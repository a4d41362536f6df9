#include "train/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "neap/error.h"

namespace neap {
namespace {

struct Asked {
  const TrainOptions& o;
  const GivenFlags& given;

  bool has(std::string_view flag) const { return given.contains(flag); }
  bool has_any(std::initializer_list<std::string_view> flags) const {
    return std::ranges::any_of(flags, [this](std::string_view flag) { return has(flag); });
  }
  bool is_fixed_level() const { return o.policy == "bf16" || o.policy == "int8" || o.policy == "int4"; }
  bool rounds_nothing() const { return o.precision.tolerance == "exact" && !is_fixed_level(); }
  bool chooses_gears() const { return o.recurrent.gear == "adaptive"; }
  bool is_sgd() const { return o.optimizer.name == "sgd"; }
  bool evaluates() const { return !o.eval.empty() || o.validation > 0; }
};

struct Rule {
  bool (*is_broken)(const Asked&);
  const char* text;  // {policy}, {gear}, {optimizer}: as they were given
  bool is_of_any_run = false;
};

// A wish that cannot be met is here. What has no effect and misleads nobody is not: --recurrent for a model without
// recurrent layers, say, on which no result depends; or a place to spill to, which is leave and no order.
constexpr Rule kRules[] = {
    {[](const Asked& a) { return a.o.resume && a.o.checkpoint.empty(); }, "--resume needs --checkpoint FOLDER", true},
    {[](const Asked& a) { return a.has("checkpoint-every") && a.o.checkpoint.empty(); },
     "--checkpoint-every: nothing is kept without --checkpoint FOLDER; add that"},
    {[](const Asked& a) { return a.has("eval-every") && !a.evaluates(); },
     "--eval-every: there is nothing to evaluate on; add --eval DATA or --validation SHARE"},
    {[](const Asked& a) { return a.has("save-learnt") && a.o.policy != "adaptive"; },
     "--save-learnt: --policy {policy} learns nothing; take --policy adaptive"},
    {[](const Asked& a) { return !a.o.replay.empty() && !a.o.budget_schedule.empty(); },
     "--replay has the budgets that were recorded; leave --budget-schedule out", true},
    {[](const Asked& a) { return a.has("learnt") && a.o.policy != "adaptive"; },
     "--learnt: --policy {policy} has learnt nothing and asks nobody who has; take --policy adaptive"},
    {[](const Asked& a) {
       return a.has_any({"reward", "reward-weights", "every"}) && a.o.policy != "adaptive";
     },
     "--reward, --reward-weights and --every are for the agent of --policy adaptive, and --policy {policy} has none"},

    // Rounding.
    {[](const Asked& a) { return a.is_fixed_level() && a.has("tolerance") && a.o.precision.tolerance == "exact"; },
     "--policy {policy} rounds what it stores, and --tolerance exact forbids that; leave one of them out"},
    {[](const Asked& a) { return a.is_fixed_level() && a.has("precision-levels"); },
     "--precision-levels: --policy {policy} has one level; take --policy adaptive with a --tolerance to choose"},
    {[](const Asked& a) { return a.is_fixed_level() && (a.has("precision-table") || a.o.precision.choice == "table"); },
     "--precision-table: --policy {policy} has one level; take --policy adaptive with a --tolerance to choose"},
    {[](const Asked& a) { return a.rounds_nothing() && a.o.precision.flow_quantized; },
     "--flow-quantized: nothing is rounded with --tolerance exact; give another --tolerance, too"},
    {[](const Asked& a) { return a.rounds_nothing() && a.o.precision.quantize_recompute_inputs; },
     "--quantize-recompute-inputs: nothing is rounded with --tolerance exact; give another --tolerance, too"},
    {[](const Asked& a) { return a.rounds_nothing() && a.has("precision-levels") && !a.has("tolerance"); },
     "--precision-levels: nothing is rounded without a --tolerance; give one, too"},
    {[](const Asked& a) {
       return a.rounds_nothing() && !a.has("tolerance") &&
              a.has_any({"default-precision", "profiling-window", "profiling-granularity"});
     },
     "--default-precision, --profiling-window and --profiling-granularity: nothing is rounded without a --tolerance; "
     "give one, too"},
    {[](const Asked& a) { return a.rounds_nothing() && (a.has("precision-table") || a.o.precision.choice == "table"); },
     "--precision-table and --precision-choice table: nothing is rounded with --tolerance exact; give another "
     "--tolerance, too"},
    {[](const Asked& a) { return a.has("precision-table") && a.o.precision.choice != "table"; },
     "--precision-table is read with --precision-choice table alone; add that"},

    // Data and optimizers.
    {[](const Asked& a) { return a.o.carry_state && a.has("shuffle") && a.o.shuffle; },
     "--carry-state takes the data in their order, --shuffle does not; leave one of them out"},
    {[](const Asked& a) { return a.o.optimizer.nesterov && !a.is_sgd(); },
     "--nesterov is of --optimizer sgd, and this is {optimizer}", true},
    {[](const Asked& a) { return a.o.optimizer.nesterov && a.o.optimizer.momentum == 0; },
     "--nesterov needs a --momentum above 0", true},
    {[](const Asked& a) { return a.has("momentum") && a.o.optimizer.momentum != 0 && !a.is_sgd(); },
     "--momentum is of --optimizer sgd, and this is {optimizer}, which has --beta1"},
    {[](const Asked& a) { return a.is_sgd() && (a.has("beta1") || a.has("beta2") || a.has("epsilon")); },
     "--beta1, --beta2 and --epsilon are of --optimizer adam and adamw, and this is {optimizer}"},

    // The recurrent agent.
    {[](const Asked& a) { return a.has("recurrent-gears") && !a.chooses_gears(); },
     "--recurrent-gears is what --recurrent adaptive chooses from, and --recurrent {gear} chooses nothing"},
    {[](const Asked& a) { return a.has("recurrent-policy") && !a.chooses_gears(); },
     "--recurrent-policy is for --recurrent adaptive, and --recurrent {gear} chooses nothing"},
};

std::string text_of(const Rule& rule, const TrainOptions& o) {
  return fmt::format(fmt::runtime(rule.text), fmt::arg("policy", o.policy), fmt::arg("gear", o.recurrent.gear),
                     fmt::arg("optimizer", o.optimizer.name));
}

}  // namespace

std::optional<std::string> contradiction_in(const TrainOptions& options, const GivenFlags& given) {
  for (const Rule& rule : kRules) {
    if (rule.is_broken({options, given})) return text_of(rule, options);
  }
  return std::nullopt;
}

void refuse_contradictions(const TrainOptions& options, const GivenFlags& given) {
  if (const auto text = contradiction_in(options, given)) throw UserError(*text);
}

void refuse_contradictions(const TrainOptions& options) {
  for (const Rule& rule : kRules) {
    if (rule.is_of_any_run && rule.is_broken({options, {}})) throw UserError(text_of(rule, options));
  }
}

}  // namespace neap
