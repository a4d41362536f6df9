#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <numeric>

#include "core/bytes.h"
#include "core/random.h"
#include "neap/error.h"
#include "neap/train.h"
#include "runtime/executor.h"
#include "train/batches.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/optimizer.h"
#include "train/profile.h"
#include "train/schedule.h"
#include "train/setup.h"
#include "train/state.h"
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

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, const TrainOptions& options)
      : options_(options), setup_(make_setup(std::move(model), options)) {
    refuse_what_does_not_fit();
    batches_ = std::make_unique<Batches>(options_, setup_.spec, setup_.program.graph);
    if (auto data = open_evaluation(options_, setup_.spec, setup_.program.graph)) {
      evaluator_ = std::make_unique<Evaluator>(setup_.spec, std::move(data), *setup_.device,
                                               layout_of(setup_.plan, setup_.program.graph));
    }
    const std::int64_t bytes = std::max(setup_.plan.peak_bytes, evaluator_ ? evaluator_->peak_bytes() : 0);
    arena_ = setup_.device->make_arena(bytes, options_.guard);
    executor_ = std::make_unique<Executor>(setup_.program, setup_.plan, *setup_.device, *arena_);
    load_state();
    batches_->start(step_);
  }

  std::int64_t step() const { return step_; }

  StepReport advance() {
    const auto start = Clock::now();
    write_inputs();
    executor_->run();
    float loss = 0;
    executor_->read(*graph().output("loss"), &loss);
    const double ms = ms_since(start);
    ++step_;
    loss_ = loss;
    step_ms_.push_back(ms);
    const std::int64_t peak = executor_->peak_bytes();
    if (setup_.budget && peak > *setup_.budget) ++violations_;
    return {.step = step_, .loss = loss, .step_ms = ms, .lr = lr_, .peak_bytes = peak, .budget_bytes = setup_.budget};
  }

  EvalReport evaluate() {
    if (!evaluator_) throw UserError("there is nothing to evaluate on; give --eval or --validation");
    return evaluator_->run(*arena_);
  }

  void save(const std::string& path) const {
    if (!path.ends_with(".safetensors")) return model().save(path, weight_reader(graph(), *executor_));
    write_safetensors(path, outside_tensors(graph(), *executor_, Kept::kWeights).tensors,
                      {{"format", "neap"}, {"model", model().name()}});
  }

  void checkpoint() const {
    require(!options_.checkpoint.empty(), "a folder for checkpoints is given");
    write_checkpoint(options_.checkpoint,
                     {.step = step_, .run = run_of(options_, setup_.spec), .numerics_id = setup_.program.numerics_id},
                     outside_tensors(graph(), *executor_, Kept::kAll).tensors);
  }

  Summary summary() const {
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
            .median_step_ms = median(step_ms_),
            .rss_peak_bytes = rss_peak(),
            .planning_ms = setup_.planning_ms,
            .numerics_id = setup_.program.numerics_id,
            .loss_last = loss_,
            .weights_hash = fmt::format("{:016x}", hash_of(inside_tensors(graph(), *executor_, Kept::kWeights)))};
  }

  PlanReport plan() const {
    PlanReport out = report_of(setup_);
    out.arena_bytes = arena_->bytes();
    return out;
  }

  std::vector<LayerReport> profile(int steps) {
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

 private:
  const Graph& graph() const { return setup_.program.graph; }
  const Model& model() const { return *setup_.spec.model; }

  void refuse_what_does_not_fit() const {
    if (!setup_.budget || setup_.plan.peak_bytes <= *setup_.budget) return;
    throw DoesNotFit(fmt::format("the budget of {} is below the minimum of {}: {} of state, {} for the rest",
                                 human_bytes(*setup_.budget), human_bytes(setup_.min_bytes),
                                 human_bytes(setup_.plan.state_bytes),
                                 human_bytes(setup_.min_bytes - setup_.plan.state_bytes)));
  }

  void write_inputs() {
    lr_ = learning_rate(options_.optimizer.lr, step_ + 1, options_.steps, options_.schedule);
    for (const TensorId id : graph().with_role(Role::kInput)) {
      const std::string& name = graph().at(id).name;
      if (name == kHyperInput) {
        const Hyper hyper = hyper_at(step_ + 1, lr_, options_.optimizer);
        executor_->write(id, hyper.data());
      } else if (name == kRandomInput) {
        const std::array<std::uint64_t, 3> key = {options_.seed, static_cast<std::uint64_t>(step_ + 1), 0};
        executor_->write(id, key.data());
      }
    }
    batches_->next([&](TensorId id, const std::byte* data) { executor_->write(id, data); });
  }

  void load_state() {
    for (std::uint32_t i = 0; i < graph().tensors.size(); ++i) {
      const Tensor& t = graph().tensors[i];
      if (!is_state(t.role)) continue;
      const bool is_ready = t.data && t.outside_axes.empty();  // no copy in between: it may be large
      executor_->write({i}, is_ready ? t.data->data() : initial_value(t, options_.seed).data());
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

  TrainOptions options_;
  Setup setup_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Batches> batches_;
  std::int64_t step_ = 0;
  std::int64_t violations_ = 0;
  double lr_ = 0;
  float loss_ = 0;
  std::vector<double> step_ms_;
};

Trainer::Trainer(std::shared_ptr<const Model> model, const TrainOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
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
