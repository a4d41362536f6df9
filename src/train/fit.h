// How large batches or lengths may be within a number of bytes, and no more than that: for advice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "neap/train.h"

namespace neap {

struct FittingSizes {
  std::int64_t largest = 0;            // 0: not even 1 fits
  std::int64_t store_all_largest = 0;  // with everything stored
  bool is_all = false;                 // `largest` is where the search ends: more may fit
};

// "batch" or "length", as fit_training() finds them, by the least bytes of each size alone. Lengths up to twice the
// present one. None: the model takes no sequences. UserError: the options are wrong.
std::optional<FittingSizes> fitting_sizes(const std::shared_ptr<const Model>& model, const TrainOptions& options,
                                          const std::string& what, std::int64_t budget);

}  // namespace neap
