// What can be done to a piece of a step: any of the passes, alone or together.
#pragma once

#include <string>
#include <vector>

#include "optimize/optimization.h"

namespace neap {

struct Way {
  std::string name;  // "nothing", "fuse", "fuse+vocab-loss"
  std::vector<const Optimization*> passes;
  Strategy strategy = Strategy::kCompute;  // of several of different kinds: hybrid
  double tolerance = 0;
};

// The first is to do nothing. All combinations of a few passes; of many each alone, and all together.
std::vector<Way> ways_of(const std::vector<const Optimization*>& library);

}  // namespace neap
