// Predictors to compare with, and to try to break things with: none of them is a network.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "pool/predictor.h"

namespace neap {

// One that is told the truth before it is asked: whoever asks it shows it the exact lifespans of the step first.
class InformedPredictor : public LifetimePredictor {
 public:
  virtual void inform(std::span<const Tick> lifespans) = 0;
};

// From what was observed: "last-value" (of the same site and turn), "average" (quantiles of a site), "regression" (a
// site, on length and bytes). Constant: "zero", "infinite", "nan". "random". Informed: "oracle", and "adversarial",
// which says short for long and long for short. UserError lists the names when there is none such.
std::unique_ptr<LifetimePredictor> predictor_named(std::string_view name);
std::vector<std::string_view> predictor_names();

}  // namespace neap
