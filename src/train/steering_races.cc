// Races between plans, as steering runs them: who takes part, and when the next one may be.
#include <algorithm>
#include <utility>

#include "plan/simulate.h"
#include "train/steering.h"

namespace neap {

std::optional<PlanAnswer> Steering::next_answer(Steppers& steppers) {
  const auto due = std::ranges::find_if(put_off_, [&](const PlanAnswer& answer) {
    const Stepper* const stepper = steppers.peek(answer.shape);
    return stepper == nullptr || stepper->steered.may_race();
  });
  if (due == put_off_.end()) return controller_.take();
  PlanAnswer out = std::move(*due);
  put_off_.erase(due);
  return out;
}

// Until the next race may be; then the newest counts.
// Its rivals, or such as are like them, have raced before.
void Steering::put_off(PlanAnswer answer) {
  answer.rivals.clear();
  std::erase_if(put_off_, [&](const PlanAnswer& each) { return each.shape == answer.shape; });
  answer.planning_ms = 0;  // it has been counted
  put_off_.push_back(std::move(answer));
}

void Steering::start_race(Stepper& stepper, PlanAnswer answer, std::int64_t limit, const Budget& budget) {
  std::vector<Plan> offered = std::move(answer.rivals);
  offered.insert(offered.begin(), std::move(*answer.plan));
  const auto ms = [&](const Plan& p) { return simulate(p, stepper.program()->costs, setup_.link).ms; };
  constexpr std::int64_t kShare = 128;  // of the budget: all of steering shall take no more than a hundredth
  std::vector<Plan> plans = entrants_of(std::move(offered), stepper.plan(),
                                        std::exchange(stepper.steered.former, std::nullopt), limit, ms, limit / kShare);
  if (plans.front() == stepper.plan()) {
    stepper.steered.planned_for = budget.value_or(kNoBudget);
  } else {
    swap(stepper, plans.front(), budget);
  }
  if (plans.size() > 1) stepper.steered.race.emplace(std::move(plans));
}

void Steering::go_on_racing(Stepper& stepper, const Budget& budget) {
  std::optional<Race> race = std::exchange(stepper.steered.race, std::nullopt);
  if (stepper.steered.planned_for != budget.value_or(kNoBudget)) return;  // it was for another one
  if (race->is_waiting()) swap(stepper, race->running(), budget);
  race->swapped_in();
  if (!race->is_over()) {
    stepper.steered.race = std::move(race);
    return;
  }
  stepper.steered.rest.begin(stepper.steered.steps, race->lost_steps());
}

}  // namespace neap
