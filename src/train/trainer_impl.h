// The trainer's inside. Its constructors lie in files of their own: what they name is all that gets linked.
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "neap/train.h"
#include "policy/lifetime/recording.h"
#include "runtime/tracer.h"
#include "train/batch_source.h"
#include "train/budget_control.h"
#include "train/carried.h"
#include "train/decisions_file.h"
#include "train/evaluator.h"
#include "train/gearbox.h"
#include "train/new_shapes.h"
#include "train/setup.h"
#include "train/spilling.h"
#include "train/steering.h"
#include "train/steppers.h"
#include "train/tuner.h"

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
  bool is_whole() const { return is_whole_; }
  EvalReport evaluate();
  void save(const std::string& path) const;
  void checkpoint() const;
  void write_trace(const std::string& path) const;
  Summary summary() const;
  std::string learnt() const { return setup_.policy->learnt(); }
  PlanReport plan() const;
  std::optional<double> oracle_step_ms() const;
  std::vector<std::string> advice() const;
  std::vector<LayerReport> profile(int steps);
  const KernelProfile& kernels() const { return kernels_; }
  void record(int steps, const std::string& path);
  void finish_decisions();
  std::int64_t set_budget(std::string_view text);
  void wait_for_plans() { steering_.rest(); }
  std::int64_t resident_bytes() const { return arena_->resident_bytes(); }

 private:
  Stepper& first() { return steppers_.first(); }
  const Stepper& first() const { return steppers_.first(); }
  const Graph& graph() const { return first().graph(); }
  const Model& model() const { return *setup_.spec.model; }
  std::string whose_minimum() const;
  void refuse_what_does_not_fit(std::int64_t bytes, const std::string& whose = "") const;
  void make_arena();
  std::optional<TunerOptions> tuning() const;
  void make_tuner();
  TuningReport tuning_report() const;
  std::int64_t steering_bytes() const;
  Stepper& tuned(Stepper& planned);
  void note_tuning(double ms);
  // Whose turn it was last; before the first step the run's first.
  const Stepper& present() const;
  Stepper& stepper_for(const BatchInfo& batch);
  Stepper& stepper_of(const BatchShape& shape);
  [[noreturn]] void stop(const std::string& why);
  Stepper& add_stepper(BatchShape shape, std::shared_ptr<Program> program, StateLayout layout, Steering::NewPlan plan);
  Stepper::SpillFor spill_for();
  void enter(Stepper& stepper);
  void run_part(StepReport& report);
  void expect(const Stepper& stepper, StepReport& report) const;
  void finish_part(Stepper& stepper, double run_ms, double compute_ms);
  // Runs of plans so far, the present one included.
  std::int64_t run_number() const { return step_ * setup_.spec.parts + part_ + 1; }
  void write_inputs(Stepper& stepper);
  void run_step(Stepper& stepper);
  void run_calls(Stepper& stepper);
  void note_missing_log(const std::string& why);
  void add_busy(const Stepper& stepper, double compute_ms, StepReport& report);
  void prepare_to_run_again(Stepper& stepper, const SpillLost& lost, int attempt);
  void do_without_spilling(Stepper& stepper, const SpillLost& lost);
  void use_new_plan(Stepper& stepper);
  void follow_levels(Stepper& stepper);
  std::vector<StoredTensorReport> stored_rows() const;
  void keep_exact(Stepper& stepper, const CannotEncode& trouble);
  void observe(Stepper& stepper);
  double headroom(const Stepper& stepper) const;
  void run_profiled(Stepper& stepper, std::vector<double>& ms);
  std::optional<std::int64_t> budget() const { return budget_.effective(); }
  void steer();
  void change_budget();
  void fit_arena(std::int64_t least);
  void load_state();
  DecisionsHead decisions_head() const;
  void refuse_replay_of_others() const;
  void open_decisions();
  void follow_budget();
  void follow_plan(Stepper& stepper);
  void take_recorded(Stepper& stepper, const DecisionsEntry& entry);
  void refuse_above_budget(const Plan& recorded) const;
  [[noreturn]] void refuse_replay(const std::string& why) const;
  void note_decisions(const Stepper& stepper, bool is_new_plan);
  void add_decisions(const Stepper& stepper, bool is_new_plan);

  TrainOptions options_;
  Setup setup_;
  BudgetControl budget_;
  Steering steering_;
  std::unique_ptr<Arena> arena_;
  Steppers steppers_;
  NewShapes new_shapes_;
  std::unique_ptr<Tuner> tuner_;  // null: there is nothing to choose
  std::int64_t former_tuner_bytes_ = 0;
  std::vector<std::string> tuning_;  // for the next report
  Stepper* active_ = nullptr;        // whose turn it was last
  std::vector<double> timed_;        // milliseconds of each instruction, while costs are being learnt
  Gearbox gearbox_;
  Carried carried_;
  SpillWatch watch_;
  std::shared_ptr<SpillFaults> faults_;  // null: none
  SpillCounters last_;                   // of the last step
  std::int64_t replays_ = 0;
  std::string note_;                // for the next report
  std::unique_ptr<Tracer> tracer_;  // null: no trace is wanted
  bool has_told_of_log_ = false;
  KernelProfile kernels_;
  double link_busy_ms_ = 0;  // of the last step
  double compute_busy_ms_ = 0;
  double overlap_ms_ = 0;
  std::string busy_source_;
  RecordingWriter* recorder_ = nullptr;
  std::unique_ptr<DecisionsWriter> decisions_;     // null: nobody wants them
  std::exception_ptr decisions_error_;             // from which on no more were written; null: none
  std::unique_ptr<const DecisionsReader> replay_;  // null: this run decides itself
  std::optional<std::int64_t> most_replayed_;      // a budget of this run's own; none: those that were recorded hold
  std::optional<std::int64_t> noted_budget_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<BatchSource> batches_;
  std::int64_t step_ = 0;
  std::int64_t part_ = 0;     // of the batch: which is being run
  bool part_begins_ = false;  // behind nothing
  bool is_whole_ = true;      // no step is under way
  std::int64_t peak_ = 0;
  std::int64_t violations_ = 0;
  std::int64_t plans_ = 0;  // that have run
  double lr_ = 0;
  float loss_ = 0;
  StepTimes times_;
  double training_ms_ = 0;
  double steering_ms_ = 0;  // of this thread, planning apart
};

}  // namespace neap
