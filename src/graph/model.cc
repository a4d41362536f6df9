#include "neap/model.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {

std::int64_t Model::bound(std::string_view /*input*/) const { return 0; }

std::vector<std::string> Model::notes() const { return {}; }

void Model::save(const std::string& path, const WeightReader& /*weight*/) const {
  throw UserError(
      fmt::format("'{}': the model '{}' came from no file; save its weights as .safetensors", path, name()));
}

}  // namespace neap
