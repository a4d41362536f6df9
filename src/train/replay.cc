// Decisions of a run written down, and those of another followed.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/bytes.h"
#include "neap/error.h"
#include "train/trainer_impl.h"

namespace neap {

DecisionsHead Trainer::Impl::decisions_head() const {
  return {model().name(), setup_.program->numerics_id, setup_.spec.batch()};
}

// Before anything is said of budgets: one that was recorded of smaller batches says nothing of this run's.
void Trainer::Impl::refuse_replay_of_others() const {
  if (options_.replay.empty() || setup_.spec.parts > 1) return;
  const std::optional<RecordedStart> start = recorded_start(options_.replay);
  if (!start || start->first.step < 1 || start->head.numerics_id == setup_.program->numerics_id) return;
  const StepShape& here = shape_at(setup_.shapes, start->first.step);
  const DecisionsEntry& there = start->first;
  const bool is_length = there.length == here.length || (options_.lengths != "fixed" && there.length < here.length);
  if (start->head.model == model().name() && there.batch == here.batch && is_length) {
    // Of several shapes, the program may be another one than that of the recording's head.
    if (!has_changing_shapes(options_)) const DecisionsReader refuses(options_.replay, decisions_head());
    return;
  }
  throw UserError(
      fmt::format("--replay '{}': it was recorded of model '{}' with batches of {}, and this run is of model '{}' with "
                  "batches of {}; give it the same MODEL, --batch and --length",
                  options_.replay, printable(start->head.model), text_of(BatchShape{there.batch, there.length}),
                  model().name(), text_of(BatchShape{here.batch, here.length})));
}

void Trainer::Impl::open_decisions() {
  if (setup_.spec.parts > 1 && !(options_.replay.empty() && options_.decisions.empty())) {
    throw UserError("--accumulate has several plans a step, --decisions and --replay know one; leave one of them out");
  }
  const DecisionsHead head = decisions_head();
  if (!options_.replay.empty()) {
    replay_ = std::make_unique<const DecisionsReader>(options_.replay, head);
    if (replay_->first().step != step_ + 1) {
      throw UserError(fmt::format("--replay '{}': its decisions begin with step {}, this run with step {}",
                                  options_.replay, replay_->first().step, step_ + 1));
    }
    steering_.follow();
  }
  if (!options_.decisions.empty()) decisions_ = std::make_unique<DecisionsWriter>(options_.decisions, head);
}

void Trainer::Impl::follow_budget() {
  const DecisionsEntry* const entry = replay_->at(step_ + 1);
  if (entry == nullptr || !entry->budget) return;
  const std::int64_t recorded = std::min(*entry->budget, most_replayed_.value_or(kNoBudget));
  if (recorded != budget()) budget_.ask(std::to_string(recorded));
}

void Trainer::Impl::refuse_replay(const std::string& why) const {
  throw UserError(fmt::format("--replay '{}', step {}: {}", replay_->path(), step_ + 1, why));
}

// Between steps. The plan that stands may be another one only because this run made it before it had read what to do.
void Trainer::Impl::follow_plan(Stepper& stepper) {
  const DecisionsEntry* const entry = replay_->at(step_ + 1);
  if (entry != nullptr && entry->plan) take_recorded(stepper, *entry);
  refuse_above_budget(stepper.plan());
}

void Trainer::Impl::refuse_above_budget(const Plan& recorded) const {
  if (recorded.peak_bytes <= std::min(arena_->bytes(), budget().value_or(kNoBudget))) return;
  refuse_replay(fmt::format("its plan takes {}, more than the budget", human_bytes(recorded.peak_bytes)));
}

void Trainer::Impl::take_recorded(Stepper& stepper, const DecisionsEntry& entry) {
  if (const BatchShape made_for{entry.batch, entry.length, stepper.shape().variant}; made_for != stepper.shape()) {
    refuse_replay(fmt::format("the batch has {}, the plan is for {}; were the data others?", text_of(stepper.shape()),
                              text_of(made_for)));
  }
  const Plan& plan = *entry.plan;
  if (const auto error = check_recorded(plan, stepper.graph(), stepper.program()->costs)) refuse_replay(*error);
  if (layout_of(plan, stepper.graph()).offsets != layout_of(stepper.plan(), stepper.graph()).offsets) {
    refuse_replay("its weights lie elsewhere than this run's");
  }
  if (!budget()) fit_arena(plan.peak_bytes);
  refuse_above_budget(plan);
  if (plan == stepper.plan() && stepper.steered.number == 0) return;
  steering_.swap(stepper, plan, budget());
}

std::int64_t Trainer::Impl::set_budget(std::string_view text) {
  if (replay_) throw UserError("this run follows --replay, with the budgets that were recorded, and takes no other");
  return budget_.ask(text);
}

// In the middle of a step, which no file may end: what went wrong is thrown by finish_decisions().
void Trainer::Impl::note_decisions(const Stepper& stepper, bool is_new_plan) {
  if (decisions_error_) return;
  try {
    add_decisions(stepper, is_new_plan);
  } catch (const UserError& e) {
    decisions_error_ = std::current_exception();
    note_ = fmt::format("{}; training goes on without it", e.what());
  }
}

void Trainer::Impl::add_decisions(const Stepper& stepper, bool is_new_plan) {
  const bool is_new_budget = std::exchange(noted_budget_, budget()) != budget();
  if (!is_new_plan && !is_new_budget) return;
  decisions_->add({.step = step_ + 1,
                   .batch = stepper.shape().batch,
                   .length = stepper.shape().length,
                   .budget = budget(),
                   .plan = is_new_plan ? std::optional(stepper.plan()) : std::nullopt});
}

void Trainer::Impl::finish_decisions() {
  const std::unique_ptr<DecisionsWriter> writer = std::move(decisions_);
  if (decisions_error_) std::rethrow_exception(std::exchange(decisions_error_, nullptr));
  if (writer) writer->finish();
}

}  // namespace neap
