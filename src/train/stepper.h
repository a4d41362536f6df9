// All that belongs to one shape of a batch: graph, kernels and costs, the plan, what walks it, and where spilled
// tensors go. Several live in one arena; the state lies at its bottom, at the same offsets for all of them.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "plan/plan.h"
#include "pool/spill_store.h"
#include "runtime/executor.h"
#include "runtime/prepare.h"
#include "train/call_times.h"
#include "train/race.h"
#include "train/rounded.h"

namespace neap {

struct BatchShape {
  std::int64_t batch = 0;
  std::int64_t length = 0;  // of the sequences; 0: the model's own
  int variant = 0;          // of the recurrent layers: train/variants.h
  auto operator<=>(const BatchShape&) const = default;
};

// What steering (train/steering.h) knows of one shape. Budgets: kNoBudget is none.
struct Steered {
  std::int64_t steps = 0;
  CallTimes times;          // empty: nothing is measured, or it is outdated
  bool was_timed = false;   // the costs have been measured once
  double between_ms = 0;    // of a timed step, the least: outside of its calls
  double simulated_ms = 0;  // of a step, by measured costs; 0: unknown
  std::int64_t simulated_peak_bytes = 0;
  double recomputed_ms = 0;           // of that: for what is computed again
  Pace pace;                          // measured over simulated time
  std::int64_t number = 0;            // of the plan in this run; 0: it has not run yet
  std::int64_t planned_for = 0;       // the budget that the plan was made for; 0: for none in particular
  std::int64_t asked_for = 0;         // and the last one that a plan was asked for
  std::map<std::int64_t, Plan> kept;  // for other budgets
  std::optional<Race> race;           // the plan is one of those that run in turn
  RaceRest rest;                      // from races for this budget
  std::optional<Plan> former;         // ran before the plan, within the same budget; gave way to what few times said

  // Where activations are stored in fewer bits:
  std::int64_t levels_version = 0;  // of the levels that the plan has
  std::int64_t rounded_for = 0;     // the budget that settled what is rounded
  Rounded rounded;                  // by every plan until the next levels or budget
  Costs guessed;                    // as they were before anything was measured
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> asked_ahead;  // tickets, by version and budget

  void keep(std::int64_t budget, Plan plan);
  bool may_race() const { return !race && rest.is_over(steps); }
};

// An input that comes with a batch.
struct DataInput {
  TensorId id;
  std::string name;
  std::size_t bytes = 0;
};

// State that recurrent layers carry from batch to batch: what the first chunk takes, what the last leaves, and where it
// waits meanwhile, for each part of a batch (--accumulate).
struct CarriedTensors {
  TensorId in;
  TensorId out;
  std::vector<TensorId> rooms;
};

// Where the state of `graph` lies, given that `plan` has put that of `base` somewhere: by name, without constants whose
// values differ.
StateLayout shared_layout(const Graph& base, const Plan& plan, const Graph& graph);

class Stepper {
 public:
  // How a plan's store is made.
  using SpillFor = std::function<SpillOptions(const Plan&, const Graph&)>;

  // `plan` is valid and was made with `layout`. Device and arena outlive the stepper.
  Stepper(BatchShape shape, std::shared_ptr<Program> program, Plan plan, StateLayout layout, Device& device,
          Arena& arena, SpillFor spill);

  const BatchShape& shape() const { return shape_; }
  const std::shared_ptr<Program>& program() const { return program_; }
  const Graph& graph() const { return program_->graph; }
  const Plan& plan() const { return plan_; }
  std::int64_t encoded_bytes() const { return encoded_bytes_; }  // that a step of the plan stores in fewer bits
  const StateLayout& layout() const { return layout_; }
  const std::vector<DataInput>& inputs() const { return inputs_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  // Null: nothing is spilled, or another shape's turn.
  SpillStore* store() { return is_served_ ? store_.get() : nullptr; }
  TensorId loss() const { return loss_; }
  TensorId hyper() const { return hyper_; }                                // none: nothing is trained
  TensorId random() const { return random_; }                              // none: nothing is random
  TensorId part() const { return part_; }                                  // none: batches have no parts
  const std::vector<CarriedTensors>& carried() const { return carried_; }  // in the order of the graph

  Steered steered;

  // Another plan, between two steps; made with layout().
  void swap(Plan plan);
  // Before a step: the store is there, and what other shapes have overwritten is written again. Allocates nothing when
  // the last step was of this shape and plan.
  void enter();
  // Another shape's turn: RAM and disk of the store are given back.
  void leave();

 private:
  void make_executor();
  void open_store();

  BatchShape shape_;
  std::shared_ptr<Program> program_;
  Plan plan_;
  std::int64_t encoded_bytes_ = 0;
  StateLayout layout_;
  Device& device_;
  Arena& arena_;
  SpillFor spill_;
  std::unique_ptr<SpillStore> store_;
  bool is_served_ = false;              // the store has the plan's slots, not another plan's
  int unused_ = 0;                      // steps of plans without transfers since then
  std::int64_t store_arena_bytes_ = 0;  // of the arena when the store was made
  std::unique_ptr<Executor> executor_;
  std::vector<DataInput> inputs_;
  std::vector<TensorId> own_constants_;  // outside of the layout: not kept from step to step
  TensorId loss_;
  TensorId hyper_;
  TensorId random_;
  TensorId part_;
  std::vector<CarriedTensors> carried_;
};

}  // namespace neap
