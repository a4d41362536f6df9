#include "train/steering.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/bytes.h"
#include "core/clock.h"
#include "neap/error.h"
#include "observe/ceilings.h"
#include "plan/simulate.h"
#include "plan/validate.h"
#include "train/settle.h"

namespace neap {
namespace {

double sum(const std::vector<double>& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

std::int64_t key_of(const Steering::Budget& budget) { return budget.value_or(kNoBudget); }

}  // namespace

std::string above_budget(const BatchShape& shape, std::int64_t bytes, std::int64_t budget) {
  return fmt::format("batches of {} need {} without spilling, and the budget is {}", text_of(shape), human_bytes(bytes),
                     human_bytes(budget));
}

// Where everything can be stored, that is the plan, whatever measured times make of others.
bool Steering::is_tight(const Budget& budget) const { return budget && *budget < setup_.store_all_bytes; }

bool Steering::is_on(const Budget& budget) const {
  if (is_following_) return false;
  return setup_.policy->wants_times() &&
         (is_tight(budget) || std::any_of(coming_.begin(), coming_.end(), [&](std::int64_t b) { return is_tight(b); }));
}

Steering::NewPlan Steering::plan_new(const BatchShape& shape, const Program& program, const StateLayout& layout,
                                     const Budget& budget) {
  const auto start = Clock::now();
  if (setup_.levels) {
    const StoredLevels stored = setup_.levels->in(program.graph);
    const PlanningProblem problem{program.graph, program.costs, guessed_link(), &layout, &stored};
    Plan plan = settling_plan(*setup_.policy, problem, budget);
    setup_.planning_ms += ms_since(start);
    return {std::move(plan), false};
  }
  const PlanningProblem problem{program.graph, program.costs, setup_.link, &layout};
  std::optional<Plan> plan = shape_planner_ ? shape_planner_(problem, shape, budget) : std::nullopt;
  const bool is_good = plan && plan->peak_bytes <= key_of(budget) && !validate(*plan, program.graph, program.costs);
  bool is_quick = is_good;
  if (!is_good) {
    is_quick = is_tight(budget) && setup_.policy->has_quick_first();
    plan = is_quick ? first_plan(*setup_.policy, problem, *budget) : plan_within(*setup_.policy, problem, budget);
    if (plan->peak_bytes > key_of(budget)) {
      Costs guessed = program.costs;
      guess_times(program.graph, setup_.device->kind(), guessed);
      plan = or_proven(std::move(*plan), *setup_.policy, problem, guessed, budget);
    }
  }
  setup_.planning_ms += ms_since(start);
  return {std::move(*plan), is_quick};
}

void Steering::scale_guesses(Program& program) const {
  if (setup_.levels) return;
  for (double& ms : program.costs.ms) ms *= pace_;
}

void Steering::enter(Stepper& stepper, bool is_quick, const Budget& budget) {
  Steered& s = stepper.steered;
  if (!is_quick) s.planned_for = key_of(budget);
  if (!setup_.levels) return;
  s.levels_version = setup_.levels->version();
  s.rounded_for = key_of(budget);
  s.rounded = rounded_by(stepper.plan(), stepper.graph(), setup_.levels->in(stepper.graph()));
  s.guessed = stepper.program()->costs;
}

// What holds whatever was measured; how much room there is outside of the arena is not guessed.
Link Steering::guessed_link() const {
  Link out = guessed_link_;
  out.room_bytes = setup_.link.room_bytes;
  return out;
}

PlanningProblem Steering::problem(const Stepper& stepper) const {
  return {stepper.graph(), stepper.program()->costs, setup_.link, &stepper.layout(),
          setup_.levels ? &stepper.steered.rounded.levels : nullptr};
}

PlanRequest Steering::request_for(const Stepper& stepper, const Budget& budget) const {
  return {.shape = stepper.shape(),
          .program = stepper.program(),
          .costs = stepper.program()->costs,
          .link = setup_.link,
          .layout = stepper.layout(),
          .policy = setup_.policy,
          .budget = budget,
          .stores_all = !is_tight(budget),
          .is_measured = true,
          .guesses = std::nullopt,
          .rounded = std::nullopt,
          .present = std::nullopt};
}

void Steering::ask(Stepper& stepper, const Budget& budget) {
  Steered& s = stepper.steered;
  s.asked_for = key_of(budget);
  PlanRequest request = request_for(stepper, budget);
  if (setup_.levels) {
    if (s.rounded_for != key_of(budget) || !is_on(budget)) return;
    request.rounded = s.rounded;
    request.present = stepper.plan();
  }
  controller_.ask(std::move(request));
}

void Steering::ask_ahead(Stepper& stepper, std::int64_t version, const StoredLevels& levels, const Budget& budget) {
  Steered& s = stepper.steered;
  std::uint64_t& ticket = s.asked_ahead[{version, key_of(budget)}];
  if (ticket != 0) return;
  PlanRequest request = request_for(stepper, budget);
  // Not while a step waits for it.
  request.is_measured = s.was_timed && is_on(budget) && version != setup_.levels->version();
  request.guesses = {.costs = s.guessed, .link = guessed_link(), .levels = levels};
  ticket = controller_.ask_ahead(std::move(request));
}

void Steering::swap(Stepper& stepper, Plan plan, const Budget& budget) {
  Steered& s = stepper.steered;
  if (s.planned_for != key_of(budget)) {
    s.keep(s.planned_for, stepper.plan());
    s.rest.forget();
  }
  s.race.reset();
  s.former.reset();
  stepper.swap(std::move(plan));
  s.planned_for = key_of(budget);
  s.number = 0;
  drift_ = {};  // how far steps are from what is said of them is the plan's own
  simulate_step(stepper);
  ++swaps_;
}

// Without measured times there is nothing to say.
void Steering::simulate_step(Stepper& stepper) const {
  Steered& s = stepper.steered;
  if (!s.was_timed) return;
  const Simulation simulation = simulate(stepper.plan(), stepper.program()->costs, setup_.link);
  s.simulated_ms = simulation.ms + s.between_ms;
  s.simulated_peak_bytes = simulation.peak_bytes;
  s.recomputed_ms = simulation.recomputed_ms;
}

void Steering::count_bytes(const Steppers& steppers) {
  std::int64_t out = controller_.bytes() + setup_.policy->own_bytes() + (setup_.levels ? setup_.levels->bytes() : 0);
  for (const auto& each : steppers) {
    const Steered& s = each->steered;
    out += s.rounded.bytes() + s.times.bytes() + (s.race ? s.race->bytes() : 0) + (s.former ? own_bytes(*s.former) : 0);
    out += static_cast<std::int64_t>(s.guessed.ms.size() * (sizeof(double) + sizeof(std::int64_t)));
    for (const auto& [budget, plan] : s.kept) out += own_bytes(plan);
  }
  for (const PlanAnswer& each : put_off_) out += each.bytes();
  bytes_ = std::max(bytes_, out);
}

void Steering::swap_in(Steppers& steppers, const Arena& arena, const Budget& budget, std::string& problems) {
  if (controller_.has_answers()) count_bytes(steppers);
  for (const auto& each : steppers) {
    if (each->steered.race) go_on_racing(*each, budget);
  }
  while (std::optional<PlanAnswer> answer = next_answer(steppers)) {
    setup_.planning_ms += answer->planning_ms;
    Stepper* const stepper = steppers.peek(answer->shape);
    if (stepper == nullptr || is_outdated(*answer, *stepper, budget)) continue;
    if (!answer->error.empty()) {
      problems += fmt::format("{}a plan could not be made: {}", problems.empty() ? "" : "; ", answer->error);
    }
    if (!answer->plan) continue;
    if (answer->budget != budget) {
      stepper->steered.keep(key_of(answer->budget), std::move(*answer->plan));
      continue;
    }
    const std::int64_t limit = std::min(key_of(budget), arena.bytes());
    if (answer->plan->peak_bytes > limit) continue;
    if (setup_.policy->is_after_time_alone() && stepper->steered.times.is_complete()) {
      const bool waits = !stepper->steered.may_race() && stepper->plan().peak_bytes <= limit;
      waits ? put_off(std::move(*answer)) : start_race(*stepper, std::move(*answer), limit, budget);
      continue;
    }
    if (*answer->plan == stepper->plan()) {
      stepper->steered.planned_for = key_of(budget);
      continue;
    }
    const auto ms = [&](const Plan& p) { return simulate(p, stepper->program()->costs, setup_.link).ms; };
    const bool is_for_this = stepper->steered.planned_for == key_of(budget) && setup_.policy->is_after_time_alone();
    if (is_for_this && ms(*answer->plan) >= ms(stepper->plan())) continue;
    std::optional<Plan> former = stepper->plan();
    swap(*stepper, std::move(*answer->plan), budget);
    if (former->peak_bytes <= limit) stepper->steered.former = std::move(former);
  }
}

// What is to be rounded is another set by now.
bool Steering::is_outdated(const PlanAnswer& answer, const Stepper& stepper, const Budget& budget) const {
  if (!setup_.levels) return false;
  return answer.budget != budget || !answer.rounded || answer.rounded->key != stepper.steered.rounded.key;
}

void Steering::fit(Stepper& stepper, const Budget& budget) {
  Steered& s = stepper.steered;
  if (!coming_.empty() && coming_.front() == key_of(budget)) coming_.erase(coming_.begin());  // it has come
  if (s.planned_for == key_of(budget) || is_following_ || setup_.levels) return;  // follow_levels() sees to it
  if (auto ready = s.kept.find(key_of(budget)); ready != s.kept.end()) {
    Plan plan = std::move(ready->second);
    s.kept.erase(ready);
    return swap(stepper, std::move(plan), budget);
  }
  if (stepper.plan().peak_bytes > key_of(budget)) {
    NewPlan made = plan_new(stepper.shape(), *stepper.program(), stepper.layout(), budget);
    if (made.plan.peak_bytes > key_of(budget)) {
      throw DoesNotFit(above_budget(stepper.shape(), made.plan.peak_bytes, *budget));
    }
    swap(stepper, std::move(made.plan), budget);
    if (!made.is_quick) return;
  }
  const bool will_be_asked = is_on(budget) && s.times.is_empty();  // as soon as there are times
  if (s.asked_for != key_of(budget) && !will_be_asked) ask(stepper, budget);
}

// Planning is a few passes where nothing limits it, and seconds of search where something does. Fixed, so that the step
// at which levels change does not depend on how long it took.
std::int64_t Steering::notice(const Budget& budget) const {
  constexpr std::int64_t kRuns = 16;
  return budget ? kRuns : 0;
}

// As it was asked for ahead, or made now: equal requests settle alike.
PlanAnswer Steering::settled(Stepper& stepper, const Budget& budget) {
  Steered& s = stepper.steered;
  const std::int64_t version = setup_.levels->version();
  ask_ahead(stepper, version, setup_.levels->in(stepper.graph()), budget);
  const auto start = Clock::now();
  std::optional<PlanAnswer> out = controller_.wait(s.asked_ahead.at({version, key_of(budget)}));
  waited_ms_ += ms_since(start);
  s.asked_ahead.erase({version, key_of(budget)});
  std::erase_if(s.asked_ahead, [&](const auto& entry) {
    const bool is_stale = entry.first.first < version;
    if (is_stale) controller_.forget(entry.second);
    return is_stale;
  });
  if (!out) return settled(stepper, budget);
  if (!out->plan) throw InternalError(out->error);
  setup_.planning_ms += out->planning_ms;
  return std::move(*out);
}

bool Steering::follow_levels(Stepper& stepper, Arena& arena, const Budget& budget, std::int64_t run) {
  if (!setup_.levels) return true;
  setup_.levels->begin(run);
  Steered& s = stepper.steered;
  if (s.levels_version != setup_.levels->version() || s.rounded_for != key_of(budget)) {
    const bool is_improved =
        s.rounded_for == key_of(budget) && s.asked_ahead.contains({setup_.levels->version(), key_of(budget)});
    PlanAnswer made = settled(stepper, budget);
    if (made.plan->peak_bytes > key_of(budget)) return false;
    s.levels_version = setup_.levels->version();
    s.planned_for = s.rounded_for = key_of(budget);
    s.rounded = std::move(*made.rounded);
    s.race.reset();
    s.former.reset();
    s.rest.forget();
    if (made.plan->peak_bytes > arena.bytes()) arena.resize(made.plan->peak_bytes);  // finer levels take more
    if (!(*made.plan == stepper.plan())) swap(stepper, std::move(*made.plan), budget);
    if (!is_improved && s.was_timed) ask(stepper, budget);
  }
  ask_for_what_comes(stepper, budget);
  return true;
}

void Steering::ask_for_what_comes(Stepper& stepper, const Budget& budget) {
  const Levels& levels = *setup_.levels;
  const auto is_asked = [&](std::int64_t version, std::int64_t key) {
    return stepper.steered.asked_ahead.contains({version, key});
  };
  const std::int64_t version = levels.coming_version();
  if (version != 0 && !is_asked(version, key_of(budget))) {
    ask_ahead(stepper, version, levels.coming_in(stepper.graph()), budget);
  }
  for (const std::int64_t bytes : coming_) {
    if (is_asked(levels.version(), bytes) || bytes == key_of(budget)) continue;
    ask_ahead(stepper, levels.version(), levels.in(stepper.graph()), bytes);
  }
}

bool Steering::wants_times(const Stepper& stepper, const Budget& budget) const {
  constexpr std::int64_t kColdSteps = 1;  // the first one pays for cold memory
  // Without a budget no plan depends on times: then levels only want to know what they cost.
  const bool is_curious = setup_.levels && !budget && coming_.empty();
  if (!(is_on(budget) || is_curious) || stepper.steered.times.is_complete()) return false;
  // The first times of all are wanted soon; others undisturbed, since what planning takes would be in them.
  return stepper.steered.steps >= kColdSteps && (!stepper.steered.was_timed || !controller_.is_busy());
}

namespace {

void learn_codec(const Plan& plan, const std::vector<double>& timed, CodecCosts& costs) {
  CodecCosts ms;
  CodecCosts elements;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Instruction& in = plan.instructions[i];
    if (!is_codec(in.action)) continue;
    const bool is_encode = in.action == Action::kEncode;
    (is_encode ? ms.encode : ms.decode)[index_of(in.level)] += timed[i];
    (is_encode ? elements.encode : elements.decode)[index_of(in.level)] += static_cast<double>(in.elements);
  }
  for (std::size_t l = 0; l < precision::kLevels; ++l) {
    if (elements.encode[l] > 0) costs.encode[l] = ms.encode[l] / elements.encode[l] * 1e6;
    if (elements.decode[l] > 0) costs.decode[l] = ms.decode[l] / elements.decode[l] * 1e6;
  }
}

}  // namespace

// The plan was made with guesses; now there are times.
void Steering::learn(Stepper& stepper, double step_ms, const std::vector<double>& timed) {
  std::vector<double>& ms = stepper.program()->costs.ms;
  const double guessed = sum(ms);
  learn_codec(stepper.plan(), timed, stepper.program()->costs.codec);
  Steered& s = stepper.steered;
  if (s.times.is_empty()) s.pace.clear();
  const double between_ms = std::max(0.0, step_ms - sum(timed));
  s.between_ms = s.times.is_empty() ? between_ms : std::min(s.between_ms, between_ms);
  s.times.add(stepper.plan(), timed, ms.size());
  s.times.write(ms);
  if (!s.was_timed && guessed > 0) pace_ *= sum(ms) / guessed;
  s.was_timed = true;
  simulate_step(stepper);
}

// One step may have met a disk that was busy: each counts as much as all before it.
void Steering::learn_link(const Link& step) {
  const auto learn = [&](double measured, double& rate, double guessed) {
    if (measured > 0) rate = rate == guessed ? measured : (rate + measured) / 2;
  };
  learn(step.write_bytes_per_ms, setup_.link.write_bytes_per_ms, guessed_link_.write_bytes_per_ms);
  learn(step.read_bytes_per_ms, setup_.link.read_bytes_per_ms, guessed_link_.read_bytes_per_ms);
}

void Steering::after_step(Stepper& stepper, Steppers& steppers, double ms, const std::vector<double>& timed,
                          const Link& link, const Budget& budget) {
  Steered& s = stepper.steered;
  ++s.steps;
  if (!is_on(budget)) {
    if (!timed.empty()) learn(stepper, ms, timed);
    return;
  }
  learn_link(link);
  const bool is_first = s.times.is_empty();
  if (!timed.empty()) {
    learn(stepper, ms, timed);
    stepper.program()->costs.bytes_per_ms = ceilings_of(setup_.device->kind()).bytes_per_second * 1e-3;
  }
  if (s.simulated_ms > 0) s.pace.add(ms / s.simulated_ms);
  const bool is_disturbed = controller_.is_busy();  // planning takes time from the calls: the step says little
  if (s.race && timed.empty()) {
    if (!is_disturbed) s.race->add(ms);
    return;
  }
  if (timed.empty()) {
    if (!is_disturbed && s.times.is_complete() && drift_.add(ms, s.simulated_ms)) {
      for (auto& each : steppers) each->steered.times.clear();
    }
    return;
  }
  // A plan at once, since that in place is from guesses or from times that no longer hold, and another when times are
  // sure.
  if (!is_first && !s.times.is_complete()) return;
  ask(stepper, budget);
  for (const std::int64_t bytes : coming_) {
    if (!setup_.levels) ask(stepper, bytes);
  }
  s.asked_for = key_of(budget);
}

}  // namespace neap
