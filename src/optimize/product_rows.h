// Epilogues of matrix products: bias, activation, dropout, residual, elementwise chains run on the rows that the
// product has just made, while they are in the cache; in backward the activation's gradient goes between the product
// that makes its input and the product that reads it.
#pragma once

#include "optimize/optimization.h"

namespace neap {

Graph with_product_rows(const Graph& graph, const Where& where = {});

inline constexpr Optimization kProductRows = {.name = "epilogue",
                                              .what = "what follows a product runs on the rows that it has just made",
                                              .makes = "product_rows",
                                              .strategy = Strategy::kMemory,
                                              .is_bitwise = true,
                                              .apply = with_product_rows};

}  // namespace neap
