// What stands before and what behind one op, in every order that the data allows.
#pragma once

#include <vector>

#include "remat/uses.h"

namespace neap::remat {

enum class Side : std::uint8_t { kNeither, kBefore, kAfter, kSelf };

std::vector<Side> sides_of(const Problem& problem, const Uses& uses, OpIndex k);

}  // namespace neap::remat
