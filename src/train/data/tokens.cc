#include "train/data/tokens.h"

#include <fmt/format.h>

#include "core/file.h"
#include "neap/error.h"

namespace neap {
namespace {

Array read_flat(const std::filesystem::path& path, DiskType type) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const auto width = static_cast<std::size_t>(byte_size(type));
  if (mapped->size() == 0) throw UserError(fmt::format("'{}' is empty", path.string()));
  if (mapped->size() % width != 0) {
    throw UserError(
        fmt::format("'{}' has {} bytes, which is no whole number of 16-bit tokens", path.string(), mapped->size()));
  }
  const auto count = static_cast<std::int64_t>(mapped->size() / width);
  return make_array(type, false, {count}, mapped->bytes(), mapped, path.string());
}

}  // namespace

Array read_text(const std::filesystem::path& path) { return read_flat(path, DiskType::kU8); }

Array read_tokens(const std::filesystem::path& path) { return read_flat(path, DiskType::kU16); }

}  // namespace neap
