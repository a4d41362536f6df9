// Which saved tensors may be stored in fewer bits, and what backward does with each.
#pragma once

#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "precision/choice.h"

namespace neap {

struct Storable {
  TensorId id;
  precision::OpClass op_class = precision::OpClass::kOther;  // the most delicate of its readers
  std::int64_t elements = 0;
  // The share of the net's gradients that an error in it reaches: those of its own layer where backward only multiplies
  // with it, all of the layers before it where the gradient passes through it.
  double reach = 1;
};

// What an op of backward does with an activation that it reads, by the op's name.
precision::OpClass op_class_of(std::string_view op);

// In program order. Tensors that store-all keeps, large enough to matter, no statistics, nothing that a loss reads.
std::vector<Storable> find_storable(const Graph& graph);

// All of them in one level.
StoredLevels fixed_levels(const Graph& graph, precision::Level level);

}  // namespace neap
