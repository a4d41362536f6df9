// Files of this repository as texts (cmake/cuda.cmake), for programs that are compiled at run time.
#pragma once

#include <string_view>

namespace neap {

extern const std::string_view kRandomText, kBroadcastPlanText, kUnaryTypesText, kUnaryText, kBinaryTypesText,
    kBinaryText, kGateTypesText, kGateText;

}  // namespace neap
