// The update of a table that a product and lookups share, in two parts: rows that no token of the batch has picked are
// updated as soon as the product's gradient is there, which then ends; those of the tokens when the lookups' gradients
// are there, too (ops/update_rows). So the product's gradient does not wait for the end of backward; beside a tiled
// loss it is never there as a whole (vocab_delta, vocab_weight in ops/vocab_loss): to the same bits on the
// CPU, to rounding on a GPU, where the products of the parts are others.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph split_tied_updates(const Graph& graph, const Where& where = {});

inline constexpr Optimization kTiedUpdate = {
    .name = "tied-update",
    .what = "rows of a shared table that no token touches are updated at once, before the lookups' gradients",
    .makes = "rest_update",
    .strategy = Strategy::kMemory,
    .is_bitwise = true,
    .on_cuda = OnCuda::kByName,
    .rounds_on_cuda = true,
    .is_settled = true,
    .apply = split_tied_updates};

}  // namespace neap
