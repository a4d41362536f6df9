#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>

#include "autodiff/optimizer.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/random.h"
#include "neap/error.h"
#include "plan/simulate.h"
#include "train/advice.h"
#include "train/checkpoint.h"
#include "train/parts.h"
#include "train/profile.h"
#include "train/schedule.h"
#include "train/state.h"
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

std::string lengths_text(const TrainOptions& o) {
  return fmt::format(" (lengths {}, at most {}; {})", o.lengths, o.length, o.length_schedule);
}

std::map<std::string, std::string> run_of(const TrainOptions& o, const ModelSpec& spec) {
  std::map<std::string, std::string> out = {
      {"model", spec.model->name()},
      {"data", o.lengths == "fixed" && o.length_schedule.empty() ? o.data : o.data + lengths_text(o)},
      {"seed", std::to_string(o.seed)},
      {"batch", std::to_string(spec.batch() * spec.parts)},
      {"optimizer", o.optimizer.name}};
  if (spec.parts > 1) out["accumulate"] = std::to_string(spec.parts);
  if (spec.split > 1) out["split"] = std::to_string(spec.split);
  if (o.carry_state) out["carry-state"] = "on";
  return out;
}

std::optional<std::int64_t> room_of(const TrainOptions& o) {
  if (o.reservation.empty()) return std::nullopt;
  return static_cast<std::int64_t>(aligned_part(o.reservation).size());
}

// A run that follows another starts within that one's budget.
TrainOptions with_recorded_budget(TrainOptions o) {
  if (o.replay.empty() || !o.budget.empty() || !o.budget_schedule.empty()) return o;
  if (const auto bytes = recorded_budget(o.replay)) o.budget = std::to_string(*bytes);
  return o;
}

// Each has kernels of its own; lengths come in buckets, so that there are few.
constexpr std::size_t kMostShapes = 32;

}  // namespace

double StepTimes::median() const {
  std::array<double, 1024> sorted = ms_;
  const auto count = std::min<std::int64_t>(count_, static_cast<std::int64_t>(sorted.size()));
  if (count == 0) return 0;
  const auto middle = sorted.begin() + count / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + count);
  return *middle;
}

Trainer::Impl::Impl(std::shared_ptr<const Model> model, const TrainOptions& options, const OpenData& open)
    : options_(with_settled_parts(model, with_recorded_budget(options))),
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
  refuse_what_does_not_fit(std::max(setup_.plan.peak_bytes, setup_.min_bytes));
  faults_ = parse_spill_faults(options_.spill_fault);
  if (options_.trace) tracer_ = std::make_unique<Tracer>();
  const Graph& longest = setup_.program->graph;
  DataSources data = open(options_, setup_.spec, longest);
  batches_ = std::move(data.training);
  if (data.evaluation) {
    evaluator_ = std::make_unique<Evaluator>(
        setup_.spec, std::move(data.evaluation), *setup_.device,
        Evaluator::How{.layout_for = [&](const Graph& graph) { return shared_layout(longest, setup_.plan, graph); },
                       .own_only = options_.own_kernels});
    refuse_what_does_not_fit(evaluator_->peak_bytes());
    budget_.raise_minimum(evaluator_->peak_bytes());
  }
  make_arena();
  add_stepper(setup_.shape, setup_.program, layout_of(setup_.plan, longest), {setup_.plan});
  make_tuner();
  load_state();
  open_decisions();
  peak_ = first().executor().peak_bytes();
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
  const bool is_varying = options_.lengths != "fixed" || !options_.length_schedule.empty() || setup_.levels || tuning();
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

Stepper& Trainer::Impl::stepper_for(std::int64_t length) {
  return stepper_of({setup_.shape.batch, length > 0 ? length : setup_.shape.length, setup_.shape.variant});
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
  auto program = prepare_length(setup_, options_, shape.length, shape.variant);
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

void Trainer::Impl::save(const std::string& path) const {
  if (!path.ends_with(".safetensors")) {
    return model().save(path, setup_.spec.request, weight_reader(graph(), first().executor()));
  }
  write_safetensors(path, outside_tensors(graph(), first().executor(), Kept::kWeights).tensors,
                    {{"format", "neap"}, {"model", model().name()}});
}

void Trainer::Impl::checkpoint() const {
  require(!options_.checkpoint.empty(), "a folder for checkpoints is given");
  const OutsideTensors state = outside_tensors(graph(), first().executor(), Kept::kAll);
  write_checkpoint(options_.checkpoint,
                   {.step = step_,
                    .run = run_of(options_, setup_.spec),
                    .numerics_id = setup_.program->numerics_id,
                    .levels = setup_.levels ? setup_.levels->text() : ""},
                   state.tensors);
}

void Trainer::Impl::write_trace(const std::string& path) const {
  if (!tracer_) throw UserError("no trace was kept; set TrainOptions::trace");
  tracer_->write(path);
}

std::vector<StoredTensorReport> Trainer::Impl::stored_rows() const {
  auto out = setup_.levels ? setup_.levels->rows() : std::vector<StoredTensorReport>{};
  std::ranges::move(carried_.rows(), std::back_inserter(out));
  return out;
}

Summary Trainer::Impl::summary() const {
  return {.model = model().name(),
          .device = options_.device,
          .policy = options_.policy,
          .steps = step_,
          .batch = setup_.spec.batch() * setup_.spec.parts,
          .parts = setup_.spec.parts,
          .split = setup_.spec.split,
          .budget_bytes = budget(),
          .peak_bytes = peak_,
          .store_all_bytes = setup_.store_all_bytes,
          .state_bytes = first().plan().state_bytes,
          .min_budget_bytes = budget_.minimum(),
          .violations = violations_,
          .median_step_ms = times_.median(),
          .predicted_step_ms = active_ != nullptr ? Steering::predicted_ms(*active_) : 0,
          .link_busy_ms = link_busy_ms_,
          .compute_busy_ms = compute_busy_ms_,
          .overlap_ms = overlap_ms_,
          .busy_source = busy_source_,
          .steering_share =
              training_ms_ > 0 ? (steering_ms_ + gearbox_.overhead_ms() + steering_.overhead_ms()) / training_ms_ : 0,
          .steering_bytes = std::max(steering_.bytes(), setup_.policy->own_bytes()),
          .rss_peak_bytes = rss_peak(),
          .planning_ms = setup_.planning_ms,
          .planning_wait_ms = steering_.waited_ms(),
          .plan_swaps = steering_.swaps(),
          .replays = replays_,
          .saved_bytes = saved_bytes(first().plan(), graph()),
          .exact_saved_bytes = setup_.exact_saved_bytes,
          .encoding_error = setup_.levels ? setup_.levels->total_error() : 0,
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
  const Stepper& stepper = active_ != nullptr ? *active_ : first();
  PlanReport out = report_of(setup_, *stepper.program(), stepper.plan());
  out.arena_bytes = arena_->bytes();
  return out;
}

std::optional<double> Trainer::Impl::oracle_step_ms() const {
  const Stepper& stepper = active_ != nullptr ? *active_ : first();
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
  const Stepper& stepper = active_ != nullptr ? *active_ : first();
  if (!budget()) return {};
  StoredLevels stored;
  const PlanningProblem problem = setup_.problem(*stepper.program(), &stepper.layout(), stored);
  return advise_on_bytes(
      {*setup_.policy, problem, stepper.plan(), *budget(), setup_.store_all_bytes, stepper.steered.pace.median()});
}

std::vector<LayerReport> Trainer::Impl::profile(int steps) {
  if (options_.lengths != "fixed" || !options_.length_schedule.empty()) {
    throw UserError("a profile is of one shape; leave --lengths fixed");
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
  return profile_by_layer(*stepper.program(), stepper.plan(), sum);
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

void Trainer::Impl::refuse_what_does_not_fit(std::int64_t bytes) const {
  if (!setup_.budget || bytes <= *setup_.budget) return;
  const bool is_reservation = !options_.reservation.empty();
  throw DoesNotFit(fmt::format("the {} of {} is below the minimum of {} ({} bytes): {}",
                               is_reservation ? "reservation" : "budget", human_bytes(*setup_.budget),
                               human_bytes(bytes), bytes,
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

void Trainer::Impl::load_state() {
  for (std::uint32_t i = 0; i < graph().tensors.size(); ++i) {
    const Tensor& t = graph().tensors[i];
    if (!is_state(t.role)) continue;
    const bool is_ready = t.data && t.outside_axes.empty();  // no copy in between: it may be large
    first().executor().write({i}, is_ready ? t.data->data() : initial_value(t, options_.seed).data());
    if (t.data && t.data->is_mapped) forget(t.data->bytes);
  }
  // Starting weights may lack what training adds (optimizer state), a checkpoint may not.
  if (!options_.init.empty())
    load_tensors(SafeTensorsFile(options_.init), options_.init, graph(), first().executor(), Kept::kWeights);
  if (!options_.resume) return;
  if (options_.checkpoint.empty()) throw UserError("--resume needs --checkpoint FOLDER");
  if (!std::filesystem::exists(checkpoint_path(options_.checkpoint))) return;  // nothing was saved yet
  const Checkpoint checkpoint(options_.checkpoint);
  checkpoint.check_same_run(run_of(options_, setup_.spec));
  load_tensors(checkpoint.tensors(), checkpoint_path(options_.checkpoint).string(), graph(), first().executor(),
               Kept::kAll);
  step_ = checkpoint.info().step;
  const std::string& levels = checkpoint.info().levels;
  if (setup_.levels && !levels.empty() && !setup_.levels->restore(levels)) {
    throw UserError(fmt::format("checkpoint '{}' is damaged: its levels of storage cannot be read",
                                checkpoint_path(options_.checkpoint).string()));
  }
}

Trainer::~Trainer() = default;
std::int64_t Trainer::step() const { return impl_->step(); }
StepReport Trainer::advance() { return impl_->advance(); }
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
