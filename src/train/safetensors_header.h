// The JSON header of a safetensors file, read strictly and without building a document.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neap/dtype.h"
#include "train/safetensors.h"

namespace neap {

struct SafeTensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes behind the header
  std::uint64_t end = 0;
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;  // as written
  SafeTensorsMetadata metadata;
};

// "F32" for kF32; empty for what the format cannot hold.
std::string_view safetensors_name(DType type);

// UserError names `file` and the tensor. Checks each entry by itself, not how they lie beside one another.
SafeTensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace neap
