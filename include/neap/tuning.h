// Settings of what Neap does to the pieces of a graph while it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neap {

struct SubgraphOptions {
  std::optional<int> initial_granularity;  // cuts from the whole graph down to the first pieces; none: 3, or what fits
  double performance_threshold = 0.5;      // share of the roofline; a piece below is split
  double merging_threshold = 0.9;          // neighbours above it become one piece
  int window = 4;                          // samples that a piece must stay below or above
  int cooldown = 8;                        // samples in which a piece that has changed is left alone
};

struct TuningOptions {
  SubgraphOptions subgraphs;
  int rl_training_epochs = 50;  // of the agent that chooses strategies, whenever it has learnt something
  double trial_share = 0.01;    // of a run's steps that trials may cost
};

// What came of it.
struct TuningReport {
  struct Piece {
    std::string name;                    // the layers that it begins and ends with
    std::string strategy;                // "nothing", or an optimization
    std::string bound;                   // "compute" or "memory"
    double ms = 0;                       // of a step, when it was last timed; 0: never
    double roofline = 0;                 // share of it that was reached
    double bandwidth = 0;                // share of what memory can do that was used
    std::int64_t transferred_bytes = 0;  // that come from other pieces and go to others
  };
  // A call whose loops were timed in several cuts; the fastest stays.
  struct Loop {
    std::string name;                  // of the first such call
    std::string factor;                // that is used
    std::vector<std::string> factors;  // that there are
    std::vector<double> ms;            // of each, medians; 0: not yet
  };
  int trials = 0;     // of variants that gave the same results
  int adopted = 0;    // of these: that stayed
  int changes = 0;    // splits and merges
  int drifts = 0;     // times that steps had become slower or faster, and all was tried again
  int overruled = 0;  // choices of the agent that the clock contradicted
  double spent_ms = 0;
  double spent_share = 0;             // of the time that all steps took
  std::vector<std::string> rejected;  // optimizations that gave other results
  std::vector<Piece> pieces;          // empty: nothing was tuned
  std::vector<Loop> loops;
};

}  // namespace neap
