// The safetensors format: eight bytes of length N (little-endian), N bytes of JSON, then the tensors' bytes.
// {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ..., "__metadata__": {"key": "value"}}
// The tensors must cover the bytes behind the header without hole or overlap.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/file.h"
#include "neap/dtype.h"
#include "neap/shape.h"

namespace neap {

struct SafeTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> data;  // little-endian; aligned to nothing when the file is somebody else's
};

using SafeTensorsMetadata = std::map<std::string, std::string>;

// A file whose header holds; UserError names the file and the tensor otherwise. The data stay in the mapping.
class SafeTensorsFile {
 public:
  explicit SafeTensorsFile(const std::filesystem::path& path);

  // In the order of their bytes in the file.
  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  const SafeTensor* find(std::string_view name) const;
  const SafeTensorsMetadata& metadata() const { return metadata_; }

 private:
  MappedFile file_;
  std::vector<SafeTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  SafeTensorsMetadata metadata_;
};

// Through an AtomicFile: all or nothing. The bytes depend on the tensors alone, not on their order: wide types come
// first (which aligns them all), then names in byte order.
void write_safetensors(const std::filesystem::path& path, std::span<const SafeTensor> tensors,
                       const SafeTensorsMetadata& metadata = {});

}  // namespace neap
