// Forward passes over evaluation data, in the training run's arena and on its state.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "device/device.h"
#include "neap/train.h"
#include "plan/plan.h"
#include "runtime/executor.h"
#include "train/data/dataset.h"
#include "train/model_spec.h"

namespace neap {

class Evaluator {
 public:
  // `layout_for` tells where the run has put the state that a graph names. `own_only`: see prepare().
  using LayoutFor = std::function<StateLayout(const Graph&)>;
  Evaluator(ModelSpec spec, std::shared_ptr<const Dataset> data, Device& device, LayoutFor layout_for, bool own_only);

  // Bytes that the arena must have.
  std::int64_t peak_bytes() const;

  EvalReport run(Arena& arena, const std::function<void(Executor&)>& begin);

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
  void run_batch(Pass& pass, Executor& executor, std::uint64_t first, std::int64_t count, Sums& sums);

  ModelSpec spec_;
  std::shared_ptr<const Dataset> data_;
  Device& device_;
  LayoutFor layout_for_;
  bool own_only_;
  std::vector<std::byte> staging_;       // for a device whose memory the host cannot write
  std::map<std::int64_t, Pass> passes_;  // the usual batch, and what is left at the end of the data
};

}  // namespace neap
