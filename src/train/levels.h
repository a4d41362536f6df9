// In how many bits a run stores its activations: fixed by a policy, or chosen tensor by tensor while training goes on.
// What is chosen depends on the seed, the data and the step, never on time or plan. It holds from a given run of the
// step on, some runs after it was chosen, so that plans for it can be made beside training.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "neap/train.h"
#include "policy/storable.h"
#include "precision/board.h"
#include "runtime/executor.h"
#include "train/rounded.h"

namespace neap {

// "exact": none; "default", or a number above 0. UserError else.
std::optional<double> parse_tolerance(const std::string& text);
// All settings but whether there is a target. UserError names the setting.
precision::PrecisionConfig precision_config(const PrecisionOptions& options);

class Levels {
 public:
  // Null: everything is stored exactly. `longest` is the training graph of the longest batch.
  static std::unique_ptr<Levels> make(const TrainOptions& options, const Graph& longest);

  // Those that hold, for a graph of any shape: tensors are known by their names.
  StoredLevels in(const Graph& graph) const { return in(graph, held_); }
  // Others whenever another level holds.
  std::int64_t version() const { return version_; }
  bool is_adaptive() const { return is_adaptive_; }

  // Those that are chosen and do not hold yet, and the version that they will be; 0: there are none.
  std::int64_t coming_version() const { return coming_version_; }
  StoredLevels coming_in(const Graph& graph) const { return in(graph, coming_); }

  // What was chosen for this step or before holds from now on. Steps count from 1.
  void begin(std::int64_t step);
  // Around a step of a plan that rounds so. `notice`: after how many steps what is chosen holds; 0: at once.
  void before(Executor& executor, const Rounded& rounded, std::int64_t step);
  void after(Executor& executor, std::int64_t step, std::int64_t notice);
  // These stay exact, at once: for good, or until their values are as they should be. Returns a line for people.
  std::string report(const CannotEncode& trouble, const Graph& graph);

  // All that was learnt, as a text for checkpoints, and back: a run with the same settings then goes on to the same
  // bits, one with others begins anew. False: the text is damaged.
  std::string text() const;
  [[nodiscard]] bool restore(const std::string& text);

  // By what `plan` really encodes: one that has room for everything leaves exact what may have fewer bits.
  std::vector<StoredTensorReport> rows(const Plan& plan, const Graph& graph) const;
  double total_error(const Plan& plan, const Graph& graph) const;
  std::int64_t bytes() const;  // of what is known
  std::int64_t troubles() const { return troubles_; }

 private:
  Levels() = default;
  using Choice = std::vector<precision::Level>;  // one a tensor

  std::string settings() const;
  StoredLevels in(const Graph& graph, const Choice& choice) const;
  Choice chosen() const;
  Choice encoded_by(const Plan& plan, const Graph& graph) const;
  void hold(Choice choice);
  void measure(const TrialResult& result);
  std::vector<TensorId> profiled(const Graph& graph, std::int64_t step) const;

  struct Known {
    std::string name;
    std::string layer;
  };
  std::vector<Known> tensors_;
  std::map<std::string, std::size_t> index_;
  std::unique_ptr<precision::LevelBoard> board_;
  bool is_adaptive_ = true;
  bool may_feed_recomputation_ = false;
  bool flow_ = false;
  Choice held_;
  Choice coming_;
  std::int64_t due_ = 0;  // the first step of what is coming
  std::int64_t version_ = 1;
  std::int64_t coming_version_ = 0;
  std::int64_t last_version_ = 1;
  std::int64_t troubles_ = 0;

  // The measurement of a sensitivity takes two steps: a sketch of a call's result, then the result with noise.
  struct Measurement {
    std::size_t tensor = 0;
    std::optional<Sketch> sketch;
  };
  std::optional<Measurement> measurement_;
  std::size_t next_measured_ = 0;
};

}  // namespace neap
