// What planning and training have in common: the program of the largest shape and its plan.
#pragma once

#include <memory>
#include <optional>

#include "device/device.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "runtime/prepare.h"
#include "train/levels.h"
#include "train/model_spec.h"
#include "train/step_shapes.h"
#include "train/stepper.h"

namespace neap {

struct Setup {
  // What a policy plans for: costs, links, levels. `levels` holds those of the problem, and outlives it.
  PlanningProblem problem(const Program& of, const StateLayout* layout, StoredLevels& levels) const;

  ModelSpec spec;
  std::unique_ptr<Device> device;
  std::int64_t longest = 0;                 // time steps of a sample; 0: samples are no sequences
  std::vector<StepShape> shapes;            // of the run, in the order of steps
  BatchShape shape;                         // the largest of them, in the variant of the moment
  std::vector<Variant> variants;            // of the recurrent layers; at least one
  std::vector<std::int64_t> variant_bytes;  // per variant: of its smallest plan; empty: the policy has but one plan
  int least_variant = 0;                    // the one that needs the fewest bytes
  std::shared_ptr<Program> program;         // of that shape
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<Levels> levels;  // null: everything is stored exactly
  Plan plan;                       // valid
  std::int64_t store_all_bytes = 0;
  std::int64_t exact_saved_bytes = 0;  // that store-all keeps when backward begins
  std::int64_t min_bytes = 0;
  StepShape min_shape;  // which needs them
  std::optional<std::int64_t> budget;
  Link link;  // what transfers are reckoned with
  double planning_ms = 0;
};

// There is somewhere for tensors to go to.
inline bool has_place(const TrainOptions& options) { return !options.spill_dir.empty() || options.host_ram > 0; }

// The one that the options name; UserError when there is none such. `cuda` is null in a build without CUDA.
using DeviceMaker = std::unique_ptr<Device> (*)();
std::unique_ptr<Device> make_device(const TrainOptions& options, DeviceMaker cuda = make_cuda_device);

// Until somebody has measured: what calls take, and transfers.
void guess_times(const Graph& graph, DeviceKind device, Costs& costs);
Link guessed_link(const TrainOptions& options, DeviceKind device);

// UserError for wrong options. A plan above the budget is returned like any other: the caller decides.
Setup make_setup(std::shared_ptr<const Model> model, const TrainOptions& options);

// Kernels and guessed costs for batches of a shape.
std::shared_ptr<Program> prepare_shape(const Setup& setup, const TrainOptions& options, const BatchShape& shape);

// The first variant, the fastest of them, of which the policy has a plan within the budget. Times that would say more
// are guesses at this point, and guesses err by more than variants differ. Where none fits, the one of the least bytes.
int choose_variant(const Setup& setup, std::optional<std::int64_t> budget);

// Activations that a plan keeps when backward begins.
std::int64_t saved_bytes(const Plan& plan, const Graph& graph);

// `program` is that of the setup, or of another shape of the batch.
PlanReport report_of(const Setup& setup, const Program& program, const Plan& plan);

// "134 MiB of state, 33 MiB kept for backward, ...; layer 'conv1' sets it": why a plan needs what it needs.
std::string explain_peak(const PlanReport& report);

}  // namespace neap
