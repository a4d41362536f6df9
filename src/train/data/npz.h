// NPZ, numpy's format of several named arrays: a ZIP archive of NPY files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/data/array.h"

namespace neap {

struct NamedArray {
  std::string name;  // without .npy
  Array array;
};

// In the order of the archive's directory; members that are not NPY files are left out. Stored arrays stay in the
// mapping, compressed ones take memory. UserError names the file and the array.
std::vector<NamedArray> read_npz(const std::filesystem::path& path);

}  // namespace neap
