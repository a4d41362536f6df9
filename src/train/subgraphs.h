// A short run on this machine, seen as the tree of its subgraphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "neap/train.h"
#include "observe/ceilings.h"
#include "observe/hal.h"
#include "subgraph/subgraph.h"

namespace neap {

struct SubgraphRow {
  int depth = 0;
  std::string name;
  std::uint32_t nodes = 0;
  double ms = 0;           // of a step, the median
  double share = 0;        // of the roofline
  std::string bound;       // "compute" or "memory"
  std::string strategies;  // what optimizations have put there
  double gained_ms = 0;    // against the same nodes without any optimization, measured in turn
  MemoryActivity memory;   // of a step
  bool is_leaf = false;
};

struct SubgraphProfile {
  Ceilings ceilings;
  Reading clock_mhz;
  std::vector<SubgraphRow> rows;  // from the whole down, parents first
  std::vector<std::string> log;   // splits and merges, each with its reason
};

Roofline roofline_of(const Ceilings& ceilings);

// The names of the optimizations that have put nodes into [first, last), with commas between.
std::string strategies_in(const Graph& graph, std::uint32_t first, std::uint32_t last);

// Runs some steps from the first weights on, on made-up data. UserError: wrong options.
SubgraphProfile profile_subgraphs(std::shared_ptr<const Model> model, const TrainOptions& options,
                                  const SubgraphOptions& subgraphs, int steps);

}  // namespace neap
