// The trainer's inside. Its constructors lie in files of their own: what they name is all that gets linked.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "neap/train.h"
#include "runtime/tracer.h"
#include "train/batch_source.h"
#include "train/evaluator.h"
#include "train/new_shapes.h"
#include "train/setup.h"
#include "train/spilling.h"
#include "train/steppers.h"

namespace neap {

// Durations of the last steps.
class StepTimes {
 public:
  void add(double ms) { ms_[static_cast<std::size_t>(count_++) % ms_.size()] = ms; }
  double median() const;  // 0 before the first

 private:
  std::array<double, 1024> ms_{};
  std::int64_t count_ = 0;
};

class Trainer::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, const TrainOptions& options, const OpenData& open);

  std::int64_t step() const { return step_; }
  StepReport advance();
  EvalReport evaluate();
  void save(const std::string& path) const;
  void checkpoint() const;
  void write_trace(const std::string& path) const;
  Summary summary() const;
  PlanReport plan() const;
  std::vector<LayerReport> profile(int steps);

 private:
  Stepper& first() { return steppers_.first(); }
  const Stepper& first() const { return steppers_.first(); }
  const Graph& graph() const { return first().graph(); }
  const Model& model() const { return *setup_.spec.model; }
  void refuse_what_does_not_fit(std::int64_t bytes) const;
  void make_arena();
  Stepper& stepper_for(std::int64_t length);
  Stepper& add_stepper(BatchShape shape);
  Stepper::SpillFor spill_for();
  void enter(Stepper& stepper);
  void write_inputs(Stepper& stepper);
  void run_step(Stepper& stepper);
  void run_calls(Stepper& stepper);
  void prepare_to_run_again(Stepper& stepper, const SpillLost& lost, int attempt);
  void learn_costs(Stepper& stepper);
  void use_new_plan(Stepper& stepper);
  bool learns() const;
  void load_state();

  TrainOptions options_;
  Setup setup_;
  std::unique_ptr<Arena> arena_;
  Steppers steppers_;
  NewShapes new_shapes_;
  Stepper* active_ = nullptr;  // whose turn it was last
  std::vector<double> timed_;  // milliseconds of each instruction, while costs are being learnt
  SpillWatch watch_;
  std::shared_ptr<SpillFaults> faults_;  // null: none
  SpillCounters last_;                   // of the last step
  std::int64_t replays_ = 0;
  std::int64_t plans_ = 1;          // used so far
  std::unique_ptr<Tracer> tracer_;  // null: no trace is wanted
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<BatchSource> batches_;
  static constexpr std::int64_t kTimedStep = 2;  // the first one pays for cold memory
  std::int64_t step_ = 0;
  std::int64_t steps_here_ = 0;  // without those before a resume
  std::int64_t peak_ = 0;
  std::int64_t violations_ = 0;
  double lr_ = 0;
  float loss_ = 0;
  StepTimes times_;
};

}  // namespace neap
