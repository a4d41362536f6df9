// Does a row's result depend on how many rows are computed beside it? Our own matrix product promises that it does not;
// a library's may take another kernel for another size, or sum in another order.
#pragma once

#include "ops/tiled/rows.h"

namespace neap {

// Step `at` of the program gives the same bits in chunks as over all rows at once: the same implementations are
// chosen, and on random numbers, of a few chunks at most, they agree. What was found is remembered.
bool is_row_invariant(const RowProgram& program, const ValueTypes& values, std::size_t at);

}  // namespace neap
