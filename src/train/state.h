// What a run carries from step to step: initial values, and the hash that says whether two runs agree to the bit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/initial.h"
#include "graph/outside.h"

namespace neap {

// '*' stands for any text, '?' for any one character.
bool matches(std::string_view pattern, std::string_view text);

// Marks parameters as not trained. UserError when a pattern matches none.
void freeze(Graph& graph, const std::vector<std::string>& patterns);

}  // namespace neap
