// NPY, numpy's format of one array: magic, version, a Python dictionary with type, order and shape, the elements.
#pragma once

#include <filesystem>

#include "train/data/array.h"

namespace neap {

// Versions 1 to 3, C order, little-endian; bool, 8- to 64-bit integers (no u64), f4 and f8. UserError otherwise.
Array read_npy(const std::filesystem::path& path);

// The same for bytes that `owner` keeps; `label` names them in messages.
Array parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& label);

bool is_npy(std::span<const std::byte> bytes);

}  // namespace neap
