#include "train/data/npz.h"

#include <fmt/format.h>

#include <string_view>

#include "core/file.h"
#include "neap/error.h"
#include "train/data/npy.h"
#include "train/data/zip.h"

namespace neap {

std::vector<NamedArray> read_npz(const std::filesystem::path& path) {
  constexpr std::string_view kSuffix = ".npy";
  const auto file = std::make_shared<const MappedFile>(path);
  std::vector<NamedArray> arrays;
  for (const ZipMember& member : list_zip(*file)) {
    if (!member.name.ends_with(kSuffix)) continue;
    const std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    const ZipData data = unpack(member, file);
    arrays.push_back({name, parse_npy(data.bytes, data.owner, fmt::format("{}:{}", path.string(), printable(name)))});
  }
  if (arrays.empty()) throw UserError(fmt::format("'{}' holds no arrays", path.string()));
  return arrays;
}

}  // namespace neap
