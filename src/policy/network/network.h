// A small network of an agent's own: a Neap graph with its plan, its kernels and a small arena, run on one thread
// beside training. Its bytes are counted, and no kernel of another library runs in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "neap/train.h"

namespace neap {

// Parameters by name. Graphs for other batches or without backward have the same.
using NetworkWeights = std::map<std::string, std::vector<float>>;
std::int64_t bytes_of(const NetworkWeights& weights);

// A batch may come in parts: their gradients are summed up, the last one's run changes the weights by the sum over
// `parts`. There may be fewer runs than `parts`.
struct BatchPart {
  bool is_first = true;
  bool is_last = true;
  std::int64_t parts = 1;  // as with_training() had them
};

class Network {
 public:
  // Takes what builds: inputs, layers, results by name; a result "loss" and an optimizer make run() a training step.
  Network(Graph graph, std::uint64_t seed);
  ~Network();
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;

  // Where an input or a result lies; valid as long as the network.
  std::span<float> floats(std::string_view name);
  std::span<std::int32_t> integers(std::string_view name);

  // One step, from the inputs to the results. With an optimizer it is step `step` (the first is 1) at this rate.
  void run();
  void train(std::int64_t step, double lr, const OptimizerOptions& optimizer, const BatchPart& part = {});

  NetworkWeights weights() const;
  void load(const NetworkWeights& weights);  // those of its own names; InternalError when a size differs
  void forget_moments();                     // the optimizer starts anew

  std::int64_t arena_bytes() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// The graph of `g` with backward and updates behind its result "loss".
Graph with_training(Builder& g, const OptimizerOptions& optimizer, std::int64_t parts = 1);

}  // namespace neap
