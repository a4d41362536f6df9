#include "train/steering.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/clock.h"
#include "plan/simulate.h"
#include "plan/validate.h"

namespace neap {
namespace {

double sum(const std::vector<double>& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

std::int64_t key_of(const Steering::Budget& budget) { return budget.value_or(kNoBudget); }

}  // namespace

bool Steering::is_on(const Budget& budget) const {
  const auto is_tight = [&](std::int64_t bytes) { return bytes < setup_.store_all_bytes; };
  return !is_following_ && setup_.policy->wants_times() &&
         ((budget && is_tight(*budget)) || std::any_of(coming_.begin(), coming_.end(), is_tight));
}

Steering::NewPlan Steering::plan_new(const BatchShape& shape, const Program& program, const StateLayout& layout,
                                     const Budget& budget) {
  const auto start = Clock::now();
  const PlanningProblem problem{program.graph, program.costs, setup_.link, &layout};
  std::optional<Plan> plan = shape_planner_ ? shape_planner_(problem, shape, budget) : std::nullopt;
  const bool is_good = plan && plan->peak_bytes <= key_of(budget) && !validate(*plan, program.graph, program.costs);
  bool is_quick = is_good;
  if (!is_good) {
    is_quick = budget && setup_.policy->has_quick_first();
    plan = is_quick ? first_plan(*setup_.policy, problem, *budget) : plan_within(*setup_.policy, problem, budget);
  }
  setup_.planning_ms += ms_since(start);
  return {std::move(*plan), is_quick};
}

void Steering::scale_guesses(Program& program) const {
  for (double& ms : program.costs.ms) ms *= pace_;
}

void Steering::ask(Stepper& stepper, const Budget& budget) {
  stepper.steered.asked_for = key_of(budget);
  controller_.ask({.shape = stepper.shape(),
                   .program = stepper.program(),
                   .costs = stepper.program()->costs,
                   .link = setup_.link,
                   .layout = stepper.layout(),
                   .policy = setup_.policy,
                   .budget = budget});
}

void Steering::swap(Stepper& stepper, Plan plan, const Budget& budget) {
  Steered& s = stepper.steered;
  if (s.planned_for != key_of(budget)) s.keep(s.planned_for, stepper.plan());
  stepper.swap(std::move(plan));
  s.planned_for = key_of(budget);
  s.number = 0;
  simulate_step(stepper);
  ++swaps_;
}

// Without measured times there is nothing to say.
void Steering::simulate_step(Stepper& stepper) const {
  Steered& s = stepper.steered;
  if (!s.was_timed) return;
  const Simulation simulation = simulate(stepper.plan(), stepper.program()->costs, setup_.link);
  s.simulated_ms = simulation.ms;
  s.recomputed_ms = simulation.recomputed_ms;
}

void Steering::swap_in(Steppers& steppers, const Arena& arena, const Budget& budget, std::string& problems) {
  while (std::optional<PlanAnswer> answer = controller_.take()) {
    setup_.planning_ms += answer->planning_ms;
    Stepper* const stepper = steppers.peek(answer->shape);
    if (stepper == nullptr) continue;
    if (!answer->plan) {
      problems +=
          fmt::format("{}a plan could not be made, the old one stays: {}", problems.empty() ? "" : "; ", answer->error);
      continue;
    }
    if (answer->budget != budget) {
      stepper->steered.keep(key_of(answer->budget), std::move(*answer->plan));
      continue;
    }
    if (answer->plan->peak_bytes > std::min(key_of(budget), arena.bytes())) continue;
    if (*answer->plan == stepper->plan()) {
      stepper->steered.planned_for = key_of(budget);
      continue;
    }
    const auto ms = [&](const Plan& p) { return simulate(p, stepper->program()->costs, setup_.link).ms; };
    const bool is_for_this = stepper->steered.planned_for == key_of(budget) && setup_.policy->is_after_time_alone();
    if (is_for_this && ms(*answer->plan) >= ms(stepper->plan())) continue;
    swap(*stepper, std::move(*answer->plan), budget);
  }
}

void Steering::fit(Stepper& stepper, const Budget& budget) {
  Steered& s = stepper.steered;
  if (s.planned_for == key_of(budget) || is_following_) return;
  if (auto ready = s.kept.find(key_of(budget)); ready != s.kept.end()) {
    Plan plan = std::move(ready->second);
    s.kept.erase(ready);
    return swap(stepper, std::move(plan), budget);
  }
  if (stepper.plan().peak_bytes > key_of(budget)) {
    NewPlan made = plan_new(stepper.shape(), *stepper.program(), stepper.layout(), budget);
    swap(stepper, std::move(made.plan), budget);
    if (!made.is_quick) return;
  }
  const bool will_be_asked = is_on(budget) && s.times.is_empty();  // as soon as there are times
  if (s.asked_for != key_of(budget) && !will_be_asked) ask(stepper, budget);
}

bool Steering::wants_times(const Stepper& stepper, const Budget& budget) const {
  constexpr std::int64_t kColdSteps = 1;  // the first one pays for cold memory
  return is_on(budget) && !stepper.steered.times.is_complete() && stepper.steered.steps >= kColdSteps;
}

// The plan was made with guesses; now there are times.
void Steering::learn(Stepper& stepper, const std::vector<double>& timed) {
  std::vector<double>& ms = stepper.program()->costs.ms;
  const double guessed = sum(ms);
  Steered& s = stepper.steered;
  if (s.times.is_empty()) s.pace.clear();
  s.times.add(stepper.plan(), timed, ms.size());
  s.times.write(ms);
  if (!s.was_timed && guessed > 0) pace_ *= sum(ms) / guessed;
  s.was_timed = true;
  simulate_step(stepper);
}

void Steering::after_step(Stepper& stepper, Steppers& steppers, double ms, const std::vector<double>& timed,
                          const Link& link, const Budget& budget) {
  Steered& s = stepper.steered;
  ++s.steps;
  if (!is_on(budget)) return;
  if (link.write_bytes_per_ms > 0) setup_.link.write_bytes_per_ms = link.write_bytes_per_ms;
  if (link.read_bytes_per_ms > 0) setup_.link.read_bytes_per_ms = link.read_bytes_per_ms;
  const bool is_first = s.times.is_empty();
  if (!timed.empty()) learn(stepper, timed);
  if (s.simulated_ms > 0) s.pace.add(ms / s.simulated_ms);
  if (timed.empty()) {
    if (s.times.is_complete() && drift_.add(ms, s.simulated_ms)) {
      for (auto& each : steppers) each->steered.times.clear();
    }
    return;
  }
  // A plan at once, since that in place is from guesses or from times that no longer hold, and another when times are
  // sure.
  if (!is_first && !s.times.is_complete()) return;
  ask(stepper, budget);
  for (const std::int64_t bytes : coming_) ask(stepper, bytes);
  s.asked_for = key_of(budget);
}

}  // namespace neap
