// Transposes that do nothing in the end, and those that a product does by the way.
#pragma once

#include "optimize/optimization.h"

namespace neap {

// Two in a row become one, or none; elementwise ops of one operand between them do not matter where they cancel. One
// that only swaps the last two axes goes into the flags of the product that reads it.
Graph without_transposes(const Graph& graph, const Where& where = {});

}  // namespace neap
