// What every data set has; apart from the files, which an application with data of its own does not link.
#include <fmt/format.h>

#include "core/file.h"
#include "neap/error.h"
#include "train/data/dataset.h"

namespace neap {

std::size_t Dataset::field(std::string_view name) const {
  std::string names;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].name == name) return i;
    names += (i == 0 ? "" : ", ") + fields_[i].name;
  }
  throw UserError(fmt::format("the data set has no field '{}', only {}", name, printable(names)));
}

std::int64_t sample_bytes(const Field& field) { return byte_size(field.dtype, field.sample_shape.count()); }

}  // namespace neap
