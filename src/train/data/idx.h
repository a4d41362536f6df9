// IDX, the format of MNIST and its kin: two zero bytes, type, rank, big-endian 32-bit sizes, big-endian elements.
#pragma once

#include <filesystem>

#include "train/data/array.h"

namespace neap {

// Plain or gzip, told apart by content. UserError names the file and what is wrong with it.
Array read_idx(const std::filesystem::path& path);

}  // namespace neap
