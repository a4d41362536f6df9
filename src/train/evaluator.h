// Forward passes over evaluation data, in the training run's arena and on its state.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "policy/weights.h"
#include "runtime/executor.h"
#include "train/data/dataset.h"
#include "train/model_spec.h"

namespace neap {

class Evaluator {
 public:
  struct How {
    std::function<StateLayout(const Graph&)> layout_for;  // where the state lies that a graph names
    bool own_only = false;                                // see prepare()
    InferenceForm form;
    const Policy* policy = nullptr;  // who plans for the budget; null: nobody has to
    std::optional<std::int64_t> budget;
    std::int64_t most_samples = 0;            // 0: all
    const WeightsOutside* weights = nullptr;  // that wait outside, with a budget; null: none do
  };
  Evaluator(ModelSpec spec, std::shared_ptr<const Dataset> data, Device& device, How how);

  // Bytes that the arena must have.
  std::int64_t peak_bytes() const { return passes_.empty() ? 0 : largest().peak_bytes; }
  const Plan& largest() const;  // the plan that needs them; there are data

  // `store` has the weights that wait outside; null: none do. DeviceError when it does not give them back.
  EvalReport run(Arena& arena, const std::function<void(Executor&)>& begin, SpillStore* store = nullptr);
  double median_batch_ms() const;                          // of the last run; 0: there was none
  std::int64_t passes_run() const { return passes_run_; }  // the same, those included that were run again
  std::int64_t replays() const { return replays_; }        // of batches whose weights did not come in

 private:
  struct Pass {  // for one batch size
    Program program;
    Plan plan;
  };
  struct Sums {
    double loss = 0;
    std::int64_t samples = 0;
    std::int64_t correct = 0;
    std::int64_t counted = 0;  // answers that were judged: one a sample, or one a token; 0: there are no classes
  };
  Pass make_pass(std::int64_t batch) const;
  Plan plan_for_weights(const Program& program, const StateLayout& layout) const;
  void write_inputs(const Graph& graph, Executor& executor, std::uint64_t first, std::int64_t count);
  void run_calls(const Graph& graph, Executor& executor, std::uint64_t first, std::int64_t count);
  void run_batch(Pass& pass, Executor& executor, std::uint64_t first, std::int64_t count, Sums& sums);

  ModelSpec spec_;
  std::shared_ptr<const Dataset> data_;
  Device& device_;
  How how_;
  std::int64_t size_;                    // samples
  std::vector<double> batch_ms_;         // of the last run
  std::int64_t passes_run_ = 0;          // the same
  std::int64_t replays_ = 0;             // the same
  SpillStore* store_ = nullptr;          // the same
  std::vector<std::byte> staging_;       // for a device whose memory the host cannot write
  std::map<std::int64_t, Pass> passes_;  // the usual batch, and what is left at the end of the data
};

}  // namespace neap
