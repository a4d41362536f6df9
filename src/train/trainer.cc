#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <numeric>

#include "core/bytes.h"
#include "core/file.h"
#include "core/random.h"
#include "neap/error.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/profile.h"
#include "train/schedule.h"
#include "train/state.h"
#include "train/trainer_impl.h"
#include "train/weights.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The most that the process has had in RAM: its own high-water mark.
std::int64_t rss_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * kKiB;
}

std::map<std::string, std::string> run_of(const TrainOptions& o, const ModelSpec& spec) {
  return {{"model", spec.model->name()},
          {"data", o.data},
          {"seed", std::to_string(o.seed)},
          {"batch", std::to_string(spec.batch())},
          {"optimizer", o.optimizer.name}};
}

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
    : options_(options), setup_(make_setup(std::move(model), options)) {
  refuse_what_does_not_fit(setup_.plan.peak_bytes);
  DataSources data = open(options_, setup_.spec, graph());
  batches_ = std::move(data.training);
  if (data.evaluation) {
    evaluator_ = std::make_unique<Evaluator>(setup_.spec, std::move(data.evaluation), *setup_.device,
                                             layout_of(setup_.plan, graph()), options_.own_kernels);
  }
  make_arena();
  make_executor();
  loss_id_ = *graph().output("loss");
  hyper_id_ = graph().find(kHyperInput).value_or(TensorId{});
  random_id_ = graph().find(kRandomInput).value_or(TensorId{});
  load_state();
  batches_->start(step_);
}

void Trainer::Impl::make_arena() {
  std::int64_t bytes = std::max(setup_.plan.peak_bytes, evaluator_ ? evaluator_->peak_bytes() : 0);
  // Later plans may use all of the budget.
  if (!setup_.plan.slots.empty() && setup_.budget) bytes = std::max(bytes, *setup_.budget);
  if (options_.reservation.empty()) {
    arena_ = setup_.device->make_arena(bytes, options_.guard);
    return;
  }
  refuse_what_does_not_fit(bytes);
  arena_ = setup_.device->arena_in(options_.reservation);
}

StepReport Trainer::Impl::advance() {
  const auto start = Clock::now();
  const std::int64_t spilled_before = store_ ? store_->counters().written_bytes : 0;
  write_inputs();
  run_step();
  executor_->read(loss_id_, &loss_);
  const double ms = ms_since(start);
  const std::int64_t spilled = store_ ? store_->counters().written_bytes - spilled_before : 0;
  ++step_;
  ++steps_here_;
  times_.add(ms);
  const std::int64_t peak = executor_->peak_bytes();
  if (setup_.budget && peak > *setup_.budget) ++violations_;
  if (steps_here_ == kTimedStep) learn_costs();
  return {.step = step_,
          .loss = loss_,
          .step_ms = ms,
          .lr = lr_,
          .peak_bytes = peak,
          .budget_bytes = setup_.budget,
          .spilled_bytes = spilled};
}

void Trainer::Impl::make_executor() {
  store_.reset();
  if (!setup_.plan.slots.empty()) {
    if (setup_.device->kind() == DeviceKind::kCuda) {
      throw UserError("spilling from a GPU is not supported yet; give a larger --budget, or use --device cpu");
    }
    if (spill_store_maker() == nullptr) throw UserError("this application links no spill store; link neap::models");
    store_ = spill_store_maker()(setup_.plan.slots, {.folder = options_.spill_dir,
                                                     .host_ram_bytes = options_.host_ram,
                                                     .write_bytes_per_s = options_.spill_write_rate,
                                                     .read_bytes_per_s = options_.spill_read_rate,
                                                     .corrupt_read = options_.spill_fault});
  }
  executor_ = std::make_unique<Executor>(setup_.program, setup_.plan, *setup_.device, *arena_, store_.get());
}

// A step whose spilled bytes are lost is run again from its inputs: up to then it has changed nothing that stays.
void Trainer::Impl::run_step() {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      if (store_ && steps_here_ + 1 == kTimedStep) {
        executor_->run_timed(timed_);
      } else {
        executor_->run();
      }
      return;
    } catch (const SpillLost& lost) {
      store_->drain();
      if (attempt == kAttempts) throw DeviceError(fmt::format("step {}: {}", step_ + 1, lost.what));
      if (!executor_->can_run_again()) {
        throw DeviceError(
            fmt::format("step {}: {}, after weights had changed; go on from a checkpoint (--resume), or "
                        "give a larger --budget, which lets a step be run again",
                        step_ + 1, lost.what));
      }
      ++replays_;
      write_step_inputs();
      batches_->again(*executor_);
    }
  }
}

// The plan was made with guesses; now there are times. What the disk takes comes from the transfers so far.
void Trainer::Impl::learn_costs() {
  if (!store_) return;
  for (std::size_t i = 0; i < setup_.plan.instructions.size(); ++i) {
    const Instruction& in = setup_.plan.instructions[i];
    if (!is_transfer(in.action)) setup_.program.costs.ms[in.node.index] = timed_[i];
  }
  const SpillCounters c = store_->counters();
  if (c.write_ms > 0) setup_.link.write_bytes_per_ms = static_cast<double>(c.written_bytes) / c.write_ms;
  if (c.read_ms > 0) setup_.link.read_bytes_per_ms = static_cast<double>(c.read_bytes) / c.read_ms;
  const Plan before = setup_.plan;
  plan_again(setup_);
  if (setup_.plan.peak_bytes > arena_->bytes()) setup_.plan = before;
  make_executor();
}

EvalReport Trainer::Impl::evaluate() {
  if (!evaluator_) throw UserError("there is nothing to evaluate on; give --eval or --validation");
  return evaluator_->run(*arena_);
}

void Trainer::Impl::save(const std::string& path) const {
  if (!path.ends_with(".safetensors")) {
    return model().save(path, setup_.spec.request, weight_reader(graph(), *executor_));
  }
  write_safetensors(path, outside_tensors(graph(), *executor_, Kept::kWeights).tensors,
                    {{"format", "neap"}, {"model", model().name()}});
}

void Trainer::Impl::checkpoint() const {
  require(!options_.checkpoint.empty(), "a folder for checkpoints is given");
  write_checkpoint(options_.checkpoint,
                   {.step = step_, .run = run_of(options_, setup_.spec), .numerics_id = setup_.program.numerics_id},
                   outside_tensors(graph(), *executor_, Kept::kAll).tensors);
}

Summary Trainer::Impl::summary() const {
  return {.model = model().name(),
          .device = options_.device,
          .policy = options_.policy,
          .steps = step_,
          .batch = setup_.spec.batch(),
          .budget_bytes = setup_.budget,
          .peak_bytes = executor_->peak_bytes(),
          .store_all_bytes = setup_.store_all_bytes,
          .state_bytes = setup_.plan.state_bytes,
          .min_budget_bytes = setup_.min_bytes,
          .violations = violations_,
          .median_step_ms = times_.median(),
          .rss_peak_bytes = rss_peak(),
          .planning_ms = setup_.planning_ms,
          .numerics_id = setup_.program.numerics_id,
          .context_bytes = setup_.device->context_bytes(),
          .loss_last = loss_,
          .weights_hash = fmt::format("{:016x}", hash_of(inside_tensors(graph(), *executor_, Kept::kWeights).tensors))};
}

PlanReport Trainer::Impl::plan() const {
  PlanReport out = report_of(setup_);
  out.arena_bytes = arena_->bytes();
  return out;
}

std::vector<LayerReport> Trainer::Impl::profile(int steps) {
  std::vector<double> sum(setup_.plan.instructions.size());
  std::vector<double> ms;
  advance();  // the first step pays for cold memory
  for (int i = 0; i < steps; ++i) {
    write_inputs();
    executor_->run_timed(ms);
    ++step_;
    for (std::size_t k = 0; k < ms.size(); ++k) sum[k] += ms[k] / steps;
  }
  return profile_by_layer(setup_.program, setup_.plan, sum);
}

void Trainer::Impl::refuse_what_does_not_fit(std::int64_t bytes) const {
  if (!setup_.budget || bytes <= *setup_.budget) return;
  const bool is_reservation = !options_.reservation.empty();
  throw DoesNotFit(fmt::format("the {} of {} is below the minimum of {}: {} of state, {} for the rest ({} bytes)",
                               is_reservation ? "reservation" : "budget", human_bytes(*setup_.budget),
                               human_bytes(bytes), human_bytes(setup_.plan.state_bytes),
                               human_bytes(bytes - setup_.plan.state_bytes), bytes));
}

// Allocates nothing.
void Trainer::Impl::write_inputs() {
  write_step_inputs();
  batches_->next(*executor_);
}

void Trainer::Impl::write_step_inputs() {
  lr_ = learning_rate(options_.optimizer.lr, step_ + 1, options_.steps, options_.schedule);
  if (hyper_id_) {
    const Hyper hyper = hyper_at(step_ + 1, lr_, options_.optimizer);
    executor_->write(hyper_id_, hyper.data());
  }
  if (random_id_) {
    const std::array<std::uint64_t, 3> key = {options_.seed, static_cast<std::uint64_t>(step_ + 1), 0};
    executor_->write(random_id_, key.data());
  }
}

void Trainer::Impl::load_state() {
  for (std::uint32_t i = 0; i < graph().tensors.size(); ++i) {
    const Tensor& t = graph().tensors[i];
    if (!is_state(t.role)) continue;
    const bool is_ready = t.data && t.outside_axes.empty();  // no copy in between: it may be large
    executor_->write({i}, is_ready ? t.data->data() : initial_value(t, options_.seed).data());
    if (t.data && t.data->is_mapped) forget(t.data->bytes);
  }
  // Starting weights may lack what training adds (optimizer state), a checkpoint may not.
  if (!options_.init.empty())
    load_tensors(SafeTensorsFile(options_.init), options_.init, graph(), *executor_, Kept::kWeights);
  if (!options_.resume) return;
  if (options_.checkpoint.empty()) throw UserError("--resume needs --checkpoint FOLDER");
  if (!std::filesystem::exists(checkpoint_path(options_.checkpoint))) return;  // nothing was saved yet
  const Checkpoint checkpoint(options_.checkpoint);
  checkpoint.check_same_run(run_of(options_, setup_.spec));
  load_tensors(checkpoint.tensors(), checkpoint_path(options_.checkpoint).string(), graph(), *executor_, Kept::kAll);
  step_ = checkpoint.info().step;
}

Trainer::~Trainer() = default;
std::int64_t Trainer::step() const { return impl_->step(); }
StepReport Trainer::advance() { return impl_->advance(); }
EvalReport Trainer::evaluate() { return impl_->evaluate(); }
void Trainer::save(const std::string& path) const { impl_->save(path); }
void Trainer::checkpoint() const { impl_->checkpoint(); }
Summary Trainer::summary() const { return impl_->summary(); }
PlanReport Trainer::plan() const { return impl_->plan(); }
std::vector<LayerReport> Trainer::profile(int steps) { return impl_->profile(steps); }

}  // namespace neap
