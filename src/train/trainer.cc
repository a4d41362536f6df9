#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "autodiff/optimizer.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "neap/error.h"
#include "train/advice.h"
#include "train/contradictions.h"
#include "train/parts.h"
#include "train/schedule.h"
#include "train/state.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

std::optional<std::int64_t> room_of(const TrainOptions& o) {
  if (o.reservation.empty()) return std::nullopt;
  return static_cast<std::int64_t>(aligned_part(o.reservation).size());
}

const TrainOptions& checked(const TrainOptions& o) {
  refuse_contradictions(o);
  return o;
}

// A run that follows another starts within that one's budget.
TrainOptions with_recorded_budget(TrainOptions o) {
  if (o.replay.empty() || !o.budget.empty()) return o;
  const auto start = recorded_start(o.replay);
  if (start && start->first.budget) o.budget = std::to_string(*start->first.budget);
  return o;
}

// Each has kernels of its own; lengths come in buckets, so that there are few.
constexpr std::size_t kMostShapes = 32;

}  // namespace

Trainer::Impl::Impl(std::shared_ptr<const Model> model, const TrainOptions& options, const OpenData& open)
    : options_(with_settled_parts(model, with_recorded_budget(checked(options)))),
      setup_(make_setup(std::move(model), options_)),
      budget_({setup_.plan.state_bytes, setup_.store_all_bytes, setup_.min_bytes}, setup_.budget, room_of(options),
              options.budget_schedule),
      steering_(setup_, {options.synchronous_planning, options.planning_delay_ms}, budget_.coming(0)),
      steppers_(kMostShapes),
      new_shapes_(options.lifetimes, options.seed),
      gearbox_(options.recurrent, options.seed, options.reservation.empty()),
      carried_(options_) {
  note_ = gearbox_.note();
  steering_.ask_first([this](const PlanningProblem& problem, const BatchShape& shape, Steering::Budget budget) {
    return new_shapes_.plan(*setup_.policy, problem, std::min(budget.value_or(kNoBudget), arena_->bytes()),
                            shape.length);
  });
  refuse_replay_of_others();
  refuse_what_does_not_fit(std::max(setup_.plan.peak_bytes, setup_.min_bytes), whose_minimum());
  faults_ = parse_spill_faults(options_.spill_fault);
  if (options_.trace) tracer_ = std::make_unique<Tracer>();
  const Graph& largest = setup_.program->graph;
  std::optional<Graph> longest;  // samples are as long as they come
  if (setup_.shape.length != setup_.longest) longest = build_training(setup_.spec, options_);
  DataSources data = open(options_, setup_.spec, longest ? *longest : largest);
  batches_ = std::move(data.training);
  if (data.evaluation) {
    evaluator_ = std::make_unique<Evaluator>(
        setup_.spec, std::move(data.evaluation), *setup_.device,
        Evaluator::How{.layout_for = [&](const Graph& graph) { return shared_layout(largest, setup_.plan, graph); },
                       .own_only = options_.own_kernels});
    refuse_what_does_not_fit(evaluator_->peak_bytes());
    budget_.raise_minimum(evaluator_->peak_bytes());
  }
  make_arena();
  add_stepper(setup_.shape, setup_.program, layout_of(setup_.plan, largest), {setup_.plan});
  make_tuner();
  load_state();
  if (!options.budget.empty()) most_replayed_ = setup_.budget;
  open_decisions();
  batches_->start(step_);
}

// Addresses for all that a later plan may want, memory for what the present ones do.
void Trainer::Impl::make_arena() {
  const std::int64_t bytes = std::max(setup_.plan.peak_bytes, evaluator_ ? evaluator_->peak_bytes() : 0);
  if (!options_.reservation.empty()) {
    arena_ = setup_.device->arena_in(options_.reservation);
    return;
  }
  const std::int64_t most = std::max(bytes, setup_.store_all_bytes);
  const bool is_varying = has_changing_shapes(options_) || setup_.levels || tuning();
  arena_ = setup_.device->make_arena(is_varying ? most + most / 4 : most, options_.guard);
  arena_->resize(bytes);
  fit_arena(bytes);
}

// All of the budget may be used, and nothing above it can be. Without one, the arena only grows. DeviceError when there
// is no memory to grow into: the arena is then as before.
void Trainer::Impl::fit_arena(std::int64_t least) {
  const std::int64_t bytes = budget() ? std::min(*budget(), arena_->capacity()) : std::max(least, arena_->bytes());
  if (bytes == arena_->bytes()) return;
  const bool is_refused = bytes > arena_->bytes() && faults_ && faults_->fail_growth > 0;
  if (is_refused && ++faults_->growths >= faults_->fail_growth) {
    throw DeviceError(
        fmt::format("the device has not the {} more that the arena needs", human_bytes(bytes - arena_->bytes())));
  }
  arena_->resize(bytes);
}

Stepper& Trainer::Impl::stepper_for(const BatchInfo& batch) {
  return stepper_of({batch.samples, batch.length > 0 ? batch.length : setup_.longest, setup_.shape.variant});
}

Stepper& Trainer::Impl::stepper_of(const BatchShape& shape) {
  if (Stepper* known = steppers_.find(shape)) {
    const auto start = Clock::now();
    const double planned_ms = setup_.planning_ms;
    try {
      steering_.fit(*known, budget());
    } catch (const DoesNotFit& e) {
      stop(e.what());
    }
    steering_ms_ += ms_since(start) - (setup_.planning_ms - planned_ms);
    return *known;
  }
  auto program = prepare_shape(setup_, options_, shape);
  steering_.scale_guesses(*program);
  StateLayout layout = shared_layout(graph(), first().plan(), program->graph);
  Steering::NewPlan plan = steering_.plan_new(shape, *program, layout, budget());
  if (budget() && plan.plan.peak_bytes > *budget() && shape.variant != setup_.least_variant) {
    return stepper_of({shape.batch, shape.length, setup_.least_variant});
  }
  if (budget() && plan.plan.peak_bytes > *budget()) stop(above_budget(shape, plan.plan.peak_bytes, *budget()));
  fit_arena(plan.plan.peak_bytes);
  return add_stepper(shape, std::move(program), std::move(layout), std::move(plan));
}

// Between steps: what ran so far is kept.
void Trainer::Impl::stop(const std::string& why) {
  if (!options_.checkpoint.empty()) checkpoint();
  throw DeviceError(fmt::format("step {}: {}", step_ + 1, why));
}

Stepper& Trainer::Impl::add_stepper(BatchShape shape, std::shared_ptr<Program> program, StateLayout layout,
                                    Steering::NewPlan plan) {
  Stepper& out = steppers_.add(std::make_unique<Stepper>(shape, std::move(program), std::move(plan.plan),
                                                         std::move(layout), *setup_.device, *arena_, spill_for()));
  steering_.enter(out, plan.is_quick, budget());
  gearbox_.enter(out.executor(), 0);  // what a step allocates nothing for later
  return out;
}

Stepper::SpillFor Trainer::Impl::spill_for() {
  return [this](const Plan& plan, const Graph& graph) {
    const std::span<std::byte> memory(arena_->base(), static_cast<std::size_t>(arena_->bytes()));
    return spill_options(options_, plan, graph, memory, faults_);
  };
}

void Trainer::Impl::enter(Stepper& stepper) {
  if (active_ != nullptr && active_ != &stepper) active_->leave();
  active_ = &stepper;
  stepper.enter();
}

EvalReport Trainer::Impl::evaluate() {
  if (!evaluator_) throw UserError("there is nothing to evaluate on; give --eval or --validation");
  if (active_ != nullptr) active_->leave();
  active_ = nullptr;
  return evaluator_->run(*arena_, [this](Executor& executor) { gearbox_.enter(executor, 1); });
}

// Of several shapes that come, the one that needs the most.
std::string Trainer::Impl::whose_minimum() const {
  if (setup_.shapes.size() < 2) return "";
  const StepShape& s = setup_.min_shape;
  return fmt::format(" that batches of {} need, from step {} on", text_of(BatchShape{s.batch, s.length}), s.step);
}

void Trainer::Impl::refuse_what_does_not_fit(std::int64_t bytes, const std::string& whose) const {
  if (!setup_.budget || bytes <= *setup_.budget) return;
  const bool is_reservation = !options_.reservation.empty();
  throw DoesNotFit(fmt::format("the {} of {} is below the minimum of {} ({} bytes){}: {}",
                               is_reservation ? "reservation" : "budget", human_bytes(*setup_.budget),
                               human_bytes(bytes), bytes, whose,
                               explain_peak(report_of(setup_, *setup_.program, setup_.plan))));
}

// Allocates nothing.
void Trainer::Impl::write_inputs(Stepper& stepper) {
  lr_ = learning_rate(options_.optimizer.lr, step_ + 1, options_.steps, options_.schedule);
  const std::int64_t parts = setup_.spec.parts;
  const auto run = static_cast<std::uint64_t>(run_number());
  if (stepper.hyper()) {
    const double scale = part_ + 1 == parts ? 1 / static_cast<double>(parts) : 0;
    const Hyper hyper = hyper_at(step_ + 1, lr_, options_.optimizer, scale);
    stepper.executor().write(stepper.hyper(), hyper.data());
  }
  if (stepper.part()) {
    const float has_sum = part_ > 0 ? 1.0F : 0.0F;
    stepper.executor().write(stepper.part(), &has_sum);
  }
  if (stepper.random()) {
    const std::array<std::uint64_t, 3> key = {options_.seed, run, 0};
    stepper.executor().write(stepper.random(), key.data());
  }
  stepper.executor().set_step(options_.seed, run);
  carried_.write(stepper, part_, part_begins_);
  batches_->write(stepper);
}

Trainer::~Trainer() = default;
std::int64_t Trainer::step() const { return impl_->step(); }
StepReport Trainer::advance() { return impl_->advance(); }
bool Trainer::is_whole() const { return impl_->is_whole(); }
EvalReport Trainer::evaluate() { return impl_->evaluate(); }
void Trainer::save(const std::string& path) const { impl_->save(path); }
void Trainer::checkpoint() const { impl_->checkpoint(); }
void Trainer::write_trace(const std::string& path) const { impl_->write_trace(path); }
void Trainer::finish_decisions() { impl_->finish_decisions(); }
std::int64_t Trainer::set_budget(std::string_view text) { return impl_->set_budget(text); }
void Trainer::wait_for_plans() { impl_->wait_for_plans(); }
std::int64_t Trainer::resident_bytes() const { return impl_->resident_bytes(); }
Summary Trainer::summary() const { return impl_->summary(); }
std::string Trainer::learnt() const { return impl_->learnt(); }
std::vector<std::string> Trainer::advice() const { return impl_->advice(); }
PlanReport Trainer::plan() const { return impl_->plan(); }
std::optional<double> Trainer::oracle_step_ms() const { return impl_->oracle_step_ms(); }
std::vector<LayerReport> Trainer::profile(int steps) { return impl_->profile(steps); }
const KernelProfile& Trainer::kernels() const { return impl_->kernels(); }
void Trainer::record(int steps, const std::string& path) { impl_->record(steps, path); }

}  // namespace neap
