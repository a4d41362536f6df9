#include "neap/model.h"

#include <fmt/format.h>

#include "neap/error.h"

namespace neap {

std::int64_t Model::bound(std::string_view /*input*/) const { return 0; }

std::vector<std::string> Model::notes() const { return {}; }

void Model::save(const std::string& path, const BuildRequest& /*request*/, const WeightReader& /*weight*/) const {
  throw UserError(fmt::format("'{}': the model '{}' can be saved as .safetensors only", path, name()));
}

}  // namespace neap
