// Pruning by magnitude (ops/prune): of weights of layers and convolutions, along their inputs. In training it is a mask
// behind the updates, in inference something that is done to weights when they are loaded.
#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace neap {

struct Pruning {
  std::int64_t keep = 0, of = 0;  // keep:of; 0:0 where it is a share
  double share = 0;
  std::int64_t from = 1;  // the step behind whose update the mask is settled; training only
};

// "2:4", "4:8", "0.9", each with ",from=STEP" where wanted; empty: none. UserError says what is wrong.
std::optional<Pruning> parse_pruning(std::string_view text);

// Weights that it takes, with the axis of their inputs: trainable, read by a layer, a product or a convolution as its
// weight, with inputs that make whole groups.
std::map<TensorId, int> pruned_weights(const Graph& forward, const Pruning& pruning);

// Behind the updates of `weights`; the masks are optimizer state, so that checkpoints have them. `parts`: of a batch.
void append_pruning(Builder& g, const std::map<TensorId, int>& weights, const Pruning& pruning, std::int64_t parts = 1);

// For inference: every weight goes through `prune`, once.
Graph with_pruned_weights(const Graph& graph, const Pruning& pruning);

}  // namespace neap
