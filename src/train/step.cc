// One training step: the batch in, the plan run, faults of transfers survived, a new plan when one is due.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "neap/error.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

SpillCounters counters_of(Stepper& stepper) {
  return stepper.store() != nullptr ? stepper.store()->counters() : SpillCounters{};
}

}  // namespace

StepReport Trainer::Impl::advance() {
  const auto start = Clock::now();
  const BatchInfo batch = batches_->next();
  Stepper& stepper = stepper_for(batch.length);
  enter(stepper);
  const SpillCounters before = counters_of(stepper);
  write_inputs(stepper);
  run_step(stepper);
  new_shapes_.note_step();
  stepper.executor().read(stepper.loss(), &loss_);
  const double ms = ms_since(start);
  last_ = between(before, counters_of(stepper));
  ++step_;
  ++steps_here_;
  times_.add(ms);
  if (tracer_) tracer_->after(stepper.executor(), step_);
  const std::int64_t peak = stepper.executor().peak_bytes();
  peak_ = std::max(peak_, peak);
  if (setup_.budget && peak > *setup_.budget) ++violations_;
  const StepReport report{.step = step_,
                          .loss = loss_,
                          .step_ms = ms,
                          .lr = lr_,
                          .length = stepper.shape().length,
                          .tokens = batch.tokens > 0 ? batch.tokens : stepper.shape().batch * stepper.shape().length,
                          .peak_bytes = peak,
                          .budget_bytes = setup_.budget,
                          .spilled_bytes = last_.written_bytes,
                          .transfer_ms = last_.write_ms + last_.read_ms,
                          .stalled_ms = last_.stalled_ms};
  if (learns() && steps_here_ == kTimedStep) {
    learn_costs(stepper);
  } else if (stepper.store() != nullptr && steps_here_ > kTimedStep && watch_.is_plan_due(last_, ms, setup_.link)) {
    use_new_plan(stepper);
  }
  return report;
}

void Trainer::Impl::run_calls(Stepper& stepper) {
  if (tracer_) tracer_->before(stepper.executor());
  if (learns() && steps_here_ + 1 == kTimedStep) {
    stepper.executor().run_timed(timed_);
  } else {
    stepper.executor().run();
  }
}

// A step whose spilled bytes are lost is run again from its inputs: up to then it has changed nothing that stays.
void Trainer::Impl::run_step(Stepper& stepper) {
  for (int attempt = 1;; ++attempt) {
    try {
      return run_calls(stepper);
    } catch (const SpillLost& lost) {
      stepper.store()->drain();
      prepare_to_run_again(stepper, lost, attempt);
    }
    ++replays_;
    write_inputs(stepper);
  }
}

// A disk that is full gets less; any other fault another try, and then another file.
void Trainer::Impl::prepare_to_run_again(Stepper& stepper, const SpillLost& lost, int attempt) {
  constexpr int kAttempts = 4;
  const auto stop = [&](const std::string& why) {
    if (!options_.checkpoint.empty()) checkpoint();  // the state is that of the last whole step
    throw DeviceError(why);
  };
  if (!stepper.executor().can_run_again()) throw DeviceError(text_of(lost, step_ + 1, true));
  if (attempt == kAttempts) stop(text_of(lost, step_ + 1, false));
  if (lost.room_bytes >= 0) {
    setup_.link.room_bytes = lost.room_bytes + options_.host_ram;
    use_new_plan(stepper);
    if (needed_room(stepper.plan(), stepper.graph()) > setup_.link.room_bytes) {
      stop(text_of(lost, step_ + 1, false));
    }
  } else if (attempt > 1) {
    stepper.leave();
    stepper.enter();
  }
}

// The plan was made with guesses; now there are times. What the disk takes comes from the transfers of this step.
void Trainer::Impl::learn_costs(Stepper& stepper) {
  Costs& costs = stepper.program()->costs;
  for (std::size_t i = 0; i < stepper.plan().instructions.size(); ++i) {
    const Instruction& in = stepper.plan().instructions[i];
    if (!is_transfer(in.action)) costs.ms[in.node.index] = timed_[i];
  }
  if (last_.write_ms > 0) setup_.link.write_bytes_per_ms = static_cast<double>(last_.written_bytes) / last_.write_ms;
  if (last_.read_ms > 0) setup_.link.read_bytes_per_ms = static_cast<double>(last_.read_bytes) / last_.read_ms;
  use_new_plan(stepper);
}

// One that the arena holds and the disk has room for; else the old one stays.
void Trainer::Impl::use_new_plan(Stepper& stepper) {
  const auto start = Clock::now();
  Plan plan = plan_within(*setup_.policy, {stepper.graph(), stepper.program()->costs, setup_.link, &stepper.layout()},
                          setup_.budget);
  setup_.planning_ms += ms_since(start);
  const bool fits = plan.peak_bytes <= std::min(arena_->bytes(), setup_.budget.value_or(arena_->bytes()));
  Plan before = stepper.plan();
  stepper.swap(fits ? std::move(plan) : before);
  ++plans_;
  watch_.start_over();
  try {
    return stepper.enter();
  } catch (const UserError&) {  // somebody has filled the disk meanwhile
    stepper.swap(std::move(before));
  }
  try {
    stepper.enter();
  } catch (const UserError& e) {
    throw DeviceError(fmt::format("step {}: {}", step_ + 1, e.what()));
  }
}

}  // namespace neap
