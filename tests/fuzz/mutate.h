// Changes that make one model into another that still parses.
#pragma once

#include <string>
#include <string_view>

namespace neap::onnx {

// Empty when the bytes are no model. The same seed gives the same change.
std::string mutate(std::string_view bytes, unsigned int seed);

}  // namespace neap::onnx
