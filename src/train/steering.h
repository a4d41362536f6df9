// Keeps the plans of a run good: learns costs from timed steps, has better plans made, swaps them in between steps.
// When a plan is swapped changes no bit of any result: what is rounded is settled by guessed costs, the levels that
// hold at a step and the budget; plans from measured times keep to that.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "neap/train.h"
#include "train/controller.h"
#include "train/drift.h"
#include "train/setup.h"
#include "train/steppers.h"

namespace neap {

// A quick plan for a shape that was never seen, from what others have shown; none: it has none to offer.
using ShapePlanner =
    std::function<std::optional<Plan>(const PlanningProblem&, const BatchShape&, std::optional<std::int64_t> budget)>;

// Why a run cannot go on that has lost its disk.
std::string above_budget(const BatchShape& shape, std::int64_t bytes, std::int64_t budget);

class Steering {
 public:
  using Budget = std::optional<std::int64_t>;

  // `coming`: budgets that are known to come.
  Steering(Setup& setup, const Controller::Options& options, std::vector<std::int64_t> coming)
      : setup_(setup), guessed_link_(setup.link), coming_(std::move(coming)), controller_(options) {}

  // Asked before the policy is, whose plan then comes later.
  void ask_first(ShapePlanner planner) { shape_planner_ = std::move(planner); }

  // The plan for a new shape: within the budget, or the smallest. `is_quick`: not the policy's, which is to come.
  struct NewPlan {
    Plan plan;
    bool is_quick = false;
  };
  NewPlan plan_new(const BatchShape& shape, const Program& program, const StateLayout& layout, const Budget& budget);
  // Guesses for a new program, by what the measured ones took; where guesses settle what is rounded, they stay.
  void scale_guesses(Program& program) const;
  // A new stepper, whose plan is one of plan_new() or of the setup.
  void enter(Stepper& stepper, bool is_quick, const Budget& budget);

  // Between steps: the plans that have come. What could not be planned goes to `problems`.
  void swap_in(Steppers& steppers, const Arena& arena, const Budget& budget, std::string& problems);
  // Between steps: gives the stepper a plan within the budget, if it has none. DoesNotFit: there is none any more.
  void fit(Stepper& stepper, const Budget& budget);

  // From now on nothing is learnt, asked for or planned: somebody else gives the plans.
  void follow() { is_following_ = true; }

  // Whether the stepper's next step should be timed.
  bool wants_times(const Stepper& stepper, const Budget& budget) const;
  // After a step that took `ms`, and its instructions `timed` (empty: they were not timed).
  void after_step(Stepper& stepper, Steppers& steppers, double ms, const std::vector<double>& timed, const Link& link,
                  const Budget& budget);

  // Has another plan made beside training, from what is known by now.
  void ask(Stepper& stepper, const Budget& budget);
  // The plan for the levels that hold at this run of a step and for the budget, before it is run (again). False:
  // nothing fits, the old one stays.
  bool follow_levels(Stepper& stepper, Arena& arena, const Budget& budget, std::int64_t run);
  // Runs of a step between a choice of levels and the first plan that has them: long enough to make it beside training.
  std::int64_t notice(const Budget& budget) const;
  // For plans that change no bit of what runs.
  PlanningProblem problem(const Stepper& stepper) const;
  // Between steps, or before a step is run again.
  void swap(Stepper& stepper, Plan plan, const Budget& budget);

  // What the next step will take by the simulator, at the pace of the last ones; 0: no call has been timed.
  static double predicted_ms(const Stepper& stepper) {
    return stepper.steered.simulated_ms * stepper.steered.pace.median();
  }

  // What the policy has learnt, levels, times, and plans besides those that run; the most so far.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t swaps() const { return swaps_; }
  double overhead_ms() const { return controller_.overhead_ms(); }
  void rest() { controller_.rest(); }              // until no plan is being made
  double waited_ms() const { return waited_ms_; }  // for plans that were asked for ahead

 private:
  bool is_on(const Budget& budget) const;
  bool is_tight(const Budget& budget) const;
  Link guessed_link() const;
  PlanRequest request_for(const Stepper& stepper, const Budget& budget) const;
  void ask_ahead(Stepper& stepper, std::int64_t version, const StoredLevels& levels, const Budget& budget);
  void ask_for_what_comes(Stepper& stepper, const Budget& budget);
  PlanAnswer settled(Stepper& stepper, const Budget& budget);
  bool is_outdated(const PlanAnswer& answer, const Stepper& stepper, const Budget& budget) const;
  void learn(Stepper& stepper, double step_ms, const std::vector<double>& timed);
  void learn_link(const Link& step);
  void simulate_step(Stepper& stepper) const;
  void count_bytes(const Steppers& steppers);
  std::optional<PlanAnswer> next_answer(Steppers& steppers);
  void put_off(PlanAnswer answer);
  void start_race(Stepper& stepper, PlanAnswer answer, std::int64_t limit, const Budget& budget);
  void go_on_racing(Stepper& stepper, const Budget& budget);

  Setup& setup_;
  Link guessed_link_;
  std::vector<std::int64_t> coming_;
  ShapePlanner shape_planner_;
  Controller controller_;
  std::vector<PlanAnswer> put_off_;  // with plans: races have to wait
  Drift drift_;
  double pace_ = 1;  // measured over guessed time
  std::int64_t swaps_ = 0;
  double waited_ms_ = 0;
  std::int64_t bytes_ = 0;
  bool is_following_ = false;
};

}  // namespace neap
