// The trainer's side of the tuner.
#include <set>

#include "device/factored_kernel.h"
#include "train/trainer_impl.h"

namespace neap {
namespace {

// Calls with the same shapes share a kernel.
std::vector<TuningReport::Loop> loops_of(const Program& program) {
  std::vector<TuningReport::Loop> out;
  std::set<const Kernel*> seen;
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    const auto* kernel = dynamic_cast<const FactoredKernel*>(program.kernels[i].get());
    if (kernel == nullptr || !seen.insert(kernel).second) continue;
    TuningReport::Loop loop{
        .name = program.graph.nodes[i].name, .factor = {}, .factors = kernel->factor_names(), .ms = {}};
    loop.factor = loop.factors[kernel->search().chosen()];
    for (std::size_t f = 0; f < loop.factors.size(); ++f) loop.ms.push_back(kernel->search().median_ms(f));
    out.push_back(std::move(loop));
  }
  return out;
}

}  // namespace

// None: there is nothing to choose, or no batch to rehearse with.
std::optional<TunerOptions> Trainer::Impl::tuning() const {
  std::optional<TunerOptions> out = tuner_options(options_, setup_);
  return batches_->can_write_again() ? out : std::nullopt;
}

void Trainer::Impl::make_tuner() {
  std::optional<TunerOptions> options = tuning();
  if (!options) return;
  const auto settled = [this, passes = settled_passes(options_.optimize, options->library, options_.device == "cuda")] {
    TrainOptions rest = options_;
    rest.optimize = passes;
    return build_training(setup_.spec, rest, setup_.variants[static_cast<std::size_t>(setup_.shape.variant)]);
  };
  const auto put_in = [this](Stepper& stepper) {
    enter(stepper);
    write_inputs(stepper);
  };
  tuner_ = std::make_unique<Tuner>(
      TunedRun{.device = *setup_.device, .arena = *arena_, .settled = settled, .base = first(), .put_in = put_in},
      std::move(*options));
}

TuningReport Trainer::Impl::tuning_report() const {
  TuningReport out = tuner_ ? tuner_->report() : TuningReport{};
  out.loops = loops_of(*present().program());
  return out;
}

// Who runs the step that was planned for. Below what storing everything takes there is one plan and one graph.
Stepper& Trainer::Impl::tuned(Stepper& planned) {
  if (!tuner_) return planned;
  active_ = nullptr;  // the tuner may drop it
  if (!budget() || *budget() >= setup_.store_all_bytes) return tuner_->before(budget());
  former_tuner_bytes_ = tuner_->bytes();
  tuner_.reset();
  tuning_.emplace_back("the budget is tight now: the step is as it was at first, and stays so");
  return planned;
}

// After a step. Its times are those of a trial, and nothing to plan by.
void Trainer::Impl::note_tuning(double ms) {
  tuner_->after(ms, timed_);
  timed_.clear();
  active_ = &tuner_->current();
  tuning_ = tuner_->take_log();
  if (const std::string note = tuner_->take_note(); !note.empty()) note_ += (note_.empty() ? "" : "; ") + note;
}

}  // namespace neap
