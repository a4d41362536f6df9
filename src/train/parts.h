// In how many parts a batch is computed, where that is left to the budget.
#pragma once

#include <memory>

#include "neap/model.h"
#include "neap/train.h"

namespace neap {

// With `accumulate` or `split` 0 (auto), the fewest parts of equal size of which the least plan fits into the budget;
// where none does, those that need the fewest bytes. UserError: the budget is not a number of bytes, or the model's
// batch norm forbids parts that the budget needs.
TrainOptions with_settled_parts(const std::shared_ptr<const Model>& model, TrainOptions options);

// What parts that take turns divide: the batch, or what accumulation leaves of it.
std::int64_t batch_to_split(const std::shared_ptr<const Model>& model, const TrainOptions& options);

}  // namespace neap
