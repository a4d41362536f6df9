// What stands behind a built-in model's name: "layers=2,heads=4".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "neap/builtin_models.h"

namespace neap {

// All parameters of the model, those in `text` and the others' defaults. UserError names the parameter, what was given
// and what is allowed.
std::map<std::string, double> read_parameters(const ModelInfo& info, std::string_view text);

}  // namespace neap
