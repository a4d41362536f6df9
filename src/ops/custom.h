// Ops that were registered from outside (neap/op.h).
#pragma once

#include <string_view>

#include "graph/op.h"

namespace neap {

// Null when there is none.
const OpDef* find_custom_op(std::string_view name);

}  // namespace neap
