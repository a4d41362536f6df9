// Forms of a model's recurrent layers that differ in what they save and book, in no bit of any result, cuDNN's apart
// (which is never one of several): a run may go from one to another between steps. The state lies at the same place for
// all of them.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "neap/train.h"

namespace neap {

struct Variant {
  bool keeps_gates = true;
  std::int64_t unroll = 0;  // steps that workspace is booked for; 0: all of a chunk
  bool by_cudnn = false;    // LSTM layers by cuDNN, to its own bits
  friend bool operator==(const Variant&, const Variant&) = default;
};

// The node is some steps of a recurrent layer.
bool is_chunk(const Node& node);

// Those that the options leave, the fastest first; one where there is nothing to choose. UserError for nonsense.
std::vector<Variant> variants_of(const TrainOptions& options, const Graph& graph);

// Before gradients are made.
void apply(const Variant& variant, Graph& forward);

}  // namespace neap
