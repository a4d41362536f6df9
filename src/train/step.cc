// One training step: the batch in, the plan run, faults of transfers survived, a new plan when one is due.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/clock.h"
#include "neap/error.h"
#include "train/thread_clock.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

SpillCounters counters_of(Stepper& stepper) {
  return stepper.store() != nullptr ? stepper.store()->counters() : SpillCounters{};
}

// How fast the transfers of a step were.
Link link_of(const SpillCounters& step) {
  const auto rate = [](std::int64_t bytes, double ms) { return ms > 0 ? static_cast<double>(bytes) / ms : 0; };
  return {.write_bytes_per_ms = rate(step.written_bytes, step.write_ms),
          .read_bytes_per_ms = rate(step.read_bytes, step.read_ms)};
}

}  // namespace

// Between steps.
void Trainer::Impl::steer() {
  const double start_ms = thread_ms();
  if (replay_) follow_budget();
  if (budget_.advance(step_ + 1)) change_budget();
  steering_.swap_in(steppers_, *arena_, budget(), note_);
  steering_ms_ += thread_ms() - start_ms;
}

void Trainer::Impl::change_budget() {
  setup_.budget = budget();
  setup_.shape.variant = choose_variant(setup_, budget());
  try {
    fit_arena(0);
  } catch (const DeviceError& e) {  // somebody else has the memory
    budget_.hold_at(arena_->bytes());
    setup_.budget = budget();
    setup_.shape.variant = choose_variant(setup_, budget());
    note_ = fmt::format("{}; the budget stays at {}", e.what(), human_bytes(arena_->bytes()));
    return;
  }
  if (budget_.asked() == budget()) return;
  note_ = fmt::format("the budget of {} is below the minimum of {} ({} of it state); training goes on at the minimum",
                      human_bytes(budget_.asked().value_or(0)), human_bytes(budget_.minimum()),
                      human_bytes(first().plan().state_bytes));
}

// Share of the budget that the step leaves free.
double Trainer::Impl::headroom(const Stepper& stepper) const {
  if (!budget()) return 1;
  return 1 - static_cast<double>(stepper.plan().peak_bytes) / static_cast<double>(*budget());
}

StepReport Trainer::Impl::advance() {
  const auto start = Clock::now();
  steer();
  StepReport out;
  for (part_ = 0; part_ < setup_.spec.parts; ++part_) run_part(out);
  part_ = 0;
  ++step_;
  is_whole_ = true;
  loss_ = out.loss / static_cast<float>(setup_.spec.parts);
  out.step = step_;
  out.loss = loss_;
  out.step_ms = ms_since(start);
  out.lr = lr_;
  out.budget_bytes = budget();
  out.note = std::exchange(note_, {});
  out.tuning = std::exchange(tuning_, {});
  times_.add(out.step_ms);
  link_busy_ms_ = out.link_busy_ms;
  compute_busy_ms_ = out.compute_busy_ms;
  overlap_ms_ = out.overlap_ms;
  return out;
}

// What is known of the coming run before it.
void Trainer::Impl::expect(const Stepper& stepper, StepReport& report) const {
  const Steered& known = stepper.steered;
  // The whole is known when every part is.
  const auto add = [&](double& sum, double ms) { sum = ms > 0 && (part_ == 0 || sum > 0) ? sum + ms : 0; };
  add(report.predicted_ms, Steering::predicted_ms(stepper));
  add(report.simulated_ms, known.simulated_ms);
  report.simulated_peak_bytes = std::max(report.simulated_peak_bytes, known.simulated_peak_bytes);
  report.recomputed_ms += known.recomputed_ms * known.pace.median();
}

// A part of a batch, mostly all of it: one run of the plan for its shape.
void Trainer::Impl::run_part(StepReport& report) {
  const BatchInfo batch = batches_->next();
  part_begins_ = batch.begins;
  Stepper& stepper = tuned(stepper_for(batch));
  if (replay_) {
    follow_plan(stepper);
  } else {
    follow_levels(stepper);
  }
  enter(stepper);
  expect(stepper, report);
  const auto run_start = Clock::now();
  write_inputs(stepper);
  gearbox_.enter(stepper.executor(), headroom(stepper));
  const auto compute_start = Clock::now();
  is_whole_ = false;
  run_step(stepper);
  float loss = 0;
  stepper.executor().read(stepper.loss(), &loss);
  const double run_ms = ms_since(run_start);
  const double compute_ms = ms_since(compute_start);
  if (std::string what = carried_.take(stepper, part_, static_cast<std::uint64_t>(run_number())); !what.empty()) {
    note_ = std::move(what);
  }
  finish_part(stepper, run_ms, compute_ms);
  report.loss += loss;
  report.compute_ms += compute_ms;
  report.batch += stepper.shape().batch;
  report.length = std::max(report.length, stepper.shape().length);
  report.tokens += batch.tokens > 0 ? batch.tokens : stepper.shape().batch * stepper.shape().length;
  report.peak_bytes = std::max(report.peak_bytes, stepper.executor().peak_bytes());
  report.spilled_bytes += last_.written_bytes;
  report.transfer_ms += last_.write_ms + last_.read_ms;
  report.stalled_ms += last_.stalled_ms;
  add_busy(stepper, compute_ms, report);
  report.plan = stepper.steered.number;
  report.encoded_bytes += stepper.encoded_bytes();
}

// What the run has shown, and what follows from it.
void Trainer::Impl::finish_part(Stepper& stepper, double run_ms, double compute_ms) {
  training_ms_ += run_ms;
  const std::int64_t peak = stepper.executor().peak_bytes();
  peak_ = std::max(peak_, peak);
  if (budget() && peak > *budget()) ++violations_;
  const bool is_new_plan = stepper.steered.number == 0;
  if (is_new_plan) stepper.steered.number = ++plans_;
  if (decisions_) note_decisions(stepper, is_new_plan);
  const double start_ms = thread_ms();
  observe(stepper);
  gearbox_.leave(compute_ms);
  if (tuner_) note_tuning(run_ms);
  steering_.after_step(stepper, steppers_, run_ms, timed_, timed_.empty() ? Link{} : link_of(last_), budget());
  if (timed_.empty() && stepper.store() != nullptr && watch_.is_plan_due(last_, run_ms, setup_.link)) {
    steering_.ask(stepper, budget());
  }
  steering_ms_ += thread_ms() - start_ms;
}

// What predictors, recordings and traces want to know of a step.
void Trainer::Impl::observe(Stepper& stepper) {
  new_shapes_.note_step();
  if (setup_.levels) setup_.levels->after(stepper.executor(), run_number(), steering_.notice(budget()));
  if (recorder_ != nullptr) {
    const StepEvents events = events_of(stepper.graph(), stepper.plan(), stepper.shape().length);
    recorder_->add(events.events, events.lifespans);
  }
  if (tracer_) tracer_->after(stepper.executor(), step_ + 1);
}

void Trainer::Impl::note_missing_log(const std::string& why) {
  if (why.empty() || has_told_of_log_) return;
  has_told_of_log_ = true;
  note_ = why + "; the trace shows calls one by one";
}

// By the device's log, or, without one, by how long calls waited for transfers.
void Trainer::Impl::add_busy(const Stepper& stepper, double compute_ms, StepReport& report) {
  Busy busy;
  if (!stepper.executor().activities().empty()) {
    busy = busy_of(stepper.executor().activities());
    busy_source_ = "cupti";
  } else if (last_.write_ms + last_.read_ms > 0) {
    busy.link_ms = last_.write_ms + last_.read_ms;
    busy.compute_ms = std::max(0.0, compute_ms - last_.stalled_ms);
    busy.overlap_ms = std::max(0.0, busy.link_ms - last_.stalled_ms);
    busy_source_ = "waits";
  } else {
    return;
  }
  report.link_busy_ms += busy.link_ms;
  report.compute_busy_ms += busy.compute_ms;
  report.overlap_ms += busy.overlap_ms;
}

void Trainer::Impl::run_calls(Stepper& stepper) {
  if (tracer_) note_missing_log(tracer_->before(stepper.executor()));
  const SpillCounters before = counters_of(stepper);
  timed_.clear();
  if (setup_.levels) setup_.levels->before(stepper.executor(), stepper.steered.rounded, run_number());
  if (tuner_ && tuner_->wants_notes()) {
    tuner_->run_noted();
  } else if (steering_.wants_times(stepper, budget()) || (tuner_ && tuner_->wants_times())) {
    stepper.executor().run_timed(timed_);
  } else {
    stepper.executor().run();
  }
  last_ = between(before, counters_of(stepper));
}

// Between steps: the plan for the levels that were chosen.
void Trainer::Impl::follow_levels(Stepper& stepper) {
  const auto start = Clock::now();
  const double waited_ms = steering_.waited_ms();
  if (!steering_.follow_levels(stepper, *arena_, budget(), run_number())) {
    if (budget() && stepper.plan().peak_bytes > *budget()) {
      stop(above_budget(stepper.shape(), stepper.plan().peak_bytes, *budget()));
    }
    stepper.steered.levels_version = setup_.levels->version();
    stepper.steered.rounded_for = budget().value_or(kNoBudget);
  }
  steering_ms_ += ms_since(start) - (steering_.waited_ms() - waited_ms);
}

// What a level cannot hold is stored exactly, and the step is run again.
void Trainer::Impl::keep_exact(Stepper& stepper, const CannotEncode& trouble) {
  const std::string what = setup_.levels->report(trouble, stepper.graph());
  if (!stepper.executor().can_run_again()) {
    throw DeviceError(fmt::format("step {}: {}, but state has changed already", step_ + 1, what));
  }
  if (stepper.store() != nullptr) stepper.store()->drain();
  if (!steering_.follow_levels(stepper, *arena_, budget(), run_number())) {
    // Within the budget more has to be made again than this policy does.
    setup_.policy = make_policy("greedy");
    if (!steering_.follow_levels(stepper, *arena_, budget(), run_number())) {
      throw DoesNotFit(fmt::format("step {}: {}, for which the budget of {} is too small", step_ + 1, what,
                                   human_bytes(budget().value_or(0))));
    }
  }
  enter(stepper);
  note_ = what;
}

// A step whose spilled bytes are lost is run again from its inputs: up to then it has changed nothing that stays.
void Trainer::Impl::run_step(Stepper& stepper) {
  for (int attempt = 1;; ++attempt) {
    try {
      return run_calls(stepper);
    } catch (const SpillLost& lost) {
      stepper.store()->drain();
      prepare_to_run_again(stepper, lost, attempt);
    } catch (const CannotEncode& trouble) {
      keep_exact(stepper, trouble);
    }
    ++replays_;
    write_inputs(stepper);
  }
}

// A disk that is full gets less; any other fault another try, and then another file. In the end nothing is spilled.
void Trainer::Impl::prepare_to_run_again(Stepper& stepper, const SpillLost& lost, int attempt) {
  constexpr int kAttempts = 3;
  if (!stepper.executor().can_run_again()) throw DeviceError(text_of(lost, step_ + 1, true));
  if (lost.room_bytes >= 0) {
    setup_.link.room_bytes = lost.room_bytes + options_.host_ram;
    use_new_plan(stepper);
    if (needed_room(stepper.plan(), stepper.graph()) <= setup_.link.room_bytes) return;
  } else if (attempt < kAttempts) {
    if (attempt > 1) stepper.leave();
    return stepper.enter();
  }
  do_without_spilling(stepper, lost);
}

// What would be spilled is made again instead, to the same bits.
void Trainer::Impl::do_without_spilling(Stepper& stepper, const SpillLost& lost) {
  // One that has a plan wherever recomputation alone has any.
  setup_.policy = make_policy(options_.policy == "spill" ? "adaptive" : options_.policy, options_.checkpointing);
  use_new_plan(stepper);
  if (stepper.plan().slots.empty()) {
    note_ = fmt::format("step {}: {}; from now on tensors are made again instead", step_ + 1, lost.what);
    return;
  }
  if (!options_.checkpoint.empty()) checkpoint();  // the state is that of the last whole step
  throw DeviceError(text_of(lost, step_ + 1, false));
}

// One that the arena holds and the disk has room for; else the old one stays.
void Trainer::Impl::use_new_plan(Stepper& stepper) {
  const auto start = Clock::now();
  Plan plan = plan_within(*setup_.policy, steering_.problem(stepper), budget());
  setup_.planning_ms += ms_since(start);
  const bool is_other = setup_.levels && !rounds_alike(plan, stepper.graph(), stepper.steered.rounded);
  const bool fits = plan.peak_bytes <= std::min(arena_->bytes(), budget().value_or(arena_->bytes())) && !is_other;
  Plan before = stepper.plan();
  stepper.leave();  // another file may have what this one lacks
  steering_.swap(stepper, fits ? std::move(plan) : before, budget());
  watch_.start_over();
  try {
    return stepper.enter();
  } catch (const UserError&) {  // somebody has filled the disk meanwhile
    steering_.swap(stepper, std::move(before), budget());
  }
  try {
    stepper.enter();
  } catch (const UserError& e) {
    throw DeviceError(fmt::format("step {}: {}", step_ + 1, e.what()));
  }
}

}  // namespace neap
