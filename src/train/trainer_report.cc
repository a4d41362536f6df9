// What a trainer tells of its run: the summary, the plan, advice, profiles and recordings.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/bytes.h"
#include "neap/error.h"
#include "plan/simulate.h"
#include "train/advice.h"
#include "train/checkpoint.h"
#include "train/profile.h"
#include "train/trainer_impl.h"
#include "train/weights.h"

namespace neap {
namespace {

// The most that the process has had in RAM: its own high-water mark.
std::int64_t rss_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * kKiB;
}

}  // namespace

// An evaluation has no turn. A tuner has steppers of its own.
const Stepper& Trainer::Impl::present() const {
  if (active_ != nullptr) return *active_;
  return tuner_ ? tuner_->current() : **steppers_.begin();
}

double StepTimes::median() const {
  std::array<double, 1024> sorted = ms_;
  const auto count = std::min<std::int64_t>(count_, static_cast<std::int64_t>(sorted.size()));
  if (count == 0) return 0;
  const auto middle = sorted.begin() + count / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + count);
  return *middle;
}

void Trainer::Impl::write_trace(const std::string& path) const {
  if (!tracer_) throw UserError("no trace was kept; set TrainOptions::trace");
  tracer_->write(path);
}

std::vector<StoredTensorReport> Trainer::Impl::stored_rows() const {
  const Stepper& last = present();
  auto out = setup_.levels ? setup_.levels->rows(last.plan(), last.graph()) : std::vector<StoredTensorReport>{};
  std::ranges::move(carried_.rows(), std::back_inserter(out));
  return out;
}

// All that decides: whoever has an agent or a table of his own is in this sum.
std::int64_t Trainer::Impl::steering_bytes() const {
  return std::max(steering_.bytes(), setup_.policy->own_bytes()) + gearbox_.bytes() + new_shapes_.bytes() +
         (tuner_ ? tuner_->bytes() : former_tuner_bytes_);
}

Summary Trainer::Impl::summary() const {
  const Stepper& last = present();
  return {.model = model().name(),
          .device = options_.device,
          .policy = options_.policy,
          .steps = step_,
          .batch = shape_at(setup_.shapes, std::max<std::int64_t>(step_, 1)).batch,
          .parts = setup_.spec.parts,
          .split = setup_.spec.split,
          .budget_bytes = budget(),
          .largest_budget_bytes = budget_.largest(),
          .peak_bytes = peak_ > 0 ? peak_ : first().executor().peak_bytes(),  // without a step: of the plan in place
          .store_all_bytes = setup_.store_all_bytes,
          .state_bytes = first().plan().state_bytes,
          .min_budget_bytes = budget_.minimum(),
          .violations = violations_,
          .median_step_ms = times_.median(),
          .predicted_step_ms = Steering::predicted_ms(last),
          .link_busy_ms = link_busy_ms_,
          .compute_busy_ms = compute_busy_ms_,
          .overlap_ms = overlap_ms_,
          .busy_source = busy_source_,
          .steering_share =
              training_ms_ > 0 ? (steering_ms_ + gearbox_.overhead_ms() + steering_.overhead_ms()) / training_ms_ : 0,
          .steering_bytes = steering_bytes(),
          .rss_peak_bytes = rss_peak(),
          .planning_ms = setup_.planning_ms,
          .planning_wait_ms = steering_.waited_ms(),
          .plan_swaps = steering_.swaps(),
          .replays = replays_,
          .saved_bytes = saved_bytes(last.plan(), last.graph()),
          .exact_saved_bytes = setup_.exact_saved_bytes,
          .encoding_error = setup_.levels ? setup_.levels->total_error(last.plan(), last.graph()) : 0,
          .kept_exact = setup_.levels ? setup_.levels->troubles() : 0,
          .stored = stored_rows(),
          .numerics_id = setup_.program->numerics_id,
          .context_bytes = setup_.device->context_bytes(),
          .loss_last = loss_,
          .weights_hash =
              fmt::format("{:016x}", hash_of(inside_tensors(graph(), first().executor(), Kept::kWeights).tensors)),
          .recurrent = gearbox_.report(),
          .tuning = tuning_report()};
}

PlanReport Trainer::Impl::plan() const {
  const Stepper& stepper = present();
  PlanReport out = report_of(setup_, *stepper.program(), stepper.plan());
  out.arena_bytes = arena_->bytes();
  return out;
}

std::optional<double> Trainer::Impl::oracle_step_ms() const {
  const Stepper& stepper = present();
  const double predicted_ms = Steering::predicted_ms(stepper);
  if (!budget() || *budget() >= setup_.store_all_bytes || !(predicted_ms > 0)) return std::nullopt;
  const Costs& costs = stepper.program()->costs;
  const std::optional<Plan> exact =
      joint_oracle_policy(has_place(options_))->within(steering_.problem(stepper), *budget());
  const double here_ms = simulate(stepper.plan(), costs, setup_.link).ms;
  if (!exact || !(here_ms > 0)) return std::nullopt;
  return predicted_ms * simulate(*exact, costs, setup_.link).ms / here_ms;  // at the pace of the last steps
}

std::vector<std::string> Trainer::Impl::advice() const {
  const Stepper& stepper = present();
  if (!budget()) return {};
  StoredLevels stored;
  const PlanningProblem problem = setup_.problem(*stepper.program(), &stepper.layout(), stored);
  // Of the present shape, where there are several.
  const std::int64_t stored_bytes =
      has_changing_shapes(options_) ? store_all_policy().smallest(problem).peak_bytes : setup_.store_all_bytes;
  std::vector<std::string> out = advise_on_bytes(
      {*setup_.policy, problem, stepper.plan(), *budget(), stored_bytes, stepper.steered.pace.median()});
  TrainOptions now = options_;
  now.batch = stepper.shape().batch * setup_.spec.parts;
  advise_on_sizes(setup_.spec.model, now, *budget(), out);
  return out;
}

std::vector<LayerReport> Trainer::Impl::profile(int steps) {
  if (has_changing_shapes(options_)) {
    throw UserError("a profile is of one shape; leave --lengths fixed, and --batch-schedule out");
  }
  advance();  // the first step pays for cold memory
  Stepper& stepper = *active_;
  std::vector<double> sum(stepper.plan().instructions.size());
  std::vector<double> ms;
  for (int i = 0; i < steps; ++i) {
    part_begins_ = batches_->next().begins;
    enter(stepper);
    write_inputs(stepper);
    run_profiled(stepper, ms);
    ++step_;
    for (std::size_t k = 0; k < ms.size(); ++k) sum[k] += ms[k] / steps;
  }
  kernels_.kernels = kernels_of(*stepper.program(), stepper.plan(), stepper.executor().activities());
  return profile_by_layer(*stepper.program(), stepper.plan(), sum, setup_.device->kind());
}

void Trainer::Impl::run_profiled(Stepper& stepper, std::vector<double>& ms) {
  try {
    kernels_.missing = stepper.executor().run_sampled(ms);
  } catch (const CannotEncode& trouble) {
    throw DeviceError(fmt::format("step {}: '{}' has values that {} cannot hold; profile with --tolerance exact",
                                  step_ + 1, graph().at(trouble.tensors.front().id).name,
                                  precision::name(trouble.tensors.front().level)));
  }
}

void Trainer::Impl::record(int steps, const std::string& path) {
  RecordingWriter writer(path, model().name());
  recorder_ = &writer;
  try {
    for (int i = 0; i < steps; ++i) advance();
  } catch (...) {
    recorder_ = nullptr;
    throw;
  }
  recorder_ = nullptr;
  writer.commit();
}

}  // namespace neap
