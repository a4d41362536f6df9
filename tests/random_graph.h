// Random small training graphs, for properties that must hold of every graph.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "ops/evaluate.h"

namespace neap {

// Forward, backward and SGD updates over views, concatenations, in-place chains, shared weights and several readers.
Graph random_training_graph(std::uint64_t seed);

// Forward alone, with the same parts; its results are "loss" and "sum".
Graph random_inference_graph(std::uint64_t seed);

// What such a graph starts from. Constant: every element of a tensor is the same.
using Leaves = std::map<std::string, HostTensor>;
Leaves leaves_of(const Graph& graph, bool is_constant = false);

}  // namespace neap
