// Random small training graphs, for properties that must hold of every graph.
#pragma once

#include "graph/graph.h"

namespace neap {

// Forward, backward and SGD updates over views, concatenations, in-place chains, shared weights and several readers.
Graph random_training_graph(std::uint64_t seed);

}  // namespace neap
