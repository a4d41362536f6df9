// Reports as JSON, with the names that scripts rely on.
#pragma once

#include <nlohmann/json.hpp>

#include "neap/train.h"

namespace neap {

using Json = nlohmann::ordered_json;

Json to_json(const StepReport& report);
Json to_json(const Summary& summary);
Json to_json(const PlanReport& report);
Json to_json(const LayerReport& report);
Json to_json(const KernelReport& report);
Json to_json(const EvalReport& report);

}  // namespace neap
