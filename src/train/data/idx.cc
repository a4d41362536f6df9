#include "train/data/idx.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "core/file.h"
#include "neap/error.h"
#include "train/data/inflate.h"

namespace neap {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kSizeBytes = 4;

std::optional<DiskType> disk_type(std::byte code) {
  switch (static_cast<int>(code)) {
    case 0x08: return DiskType::kU8;
    case 0x09: return DiskType::kI8;
    case 0x0B: return DiskType::kI16;
    case 0x0C: return DiskType::kI32;
    case 0x0D: return DiskType::kF32;
    case 0x0E: return DiskType::kF64;
    default: return std::nullopt;
  }
}

struct Header {
  DiskType type = DiskType::kU8;
  std::vector<std::int64_t> shape;
  std::uint64_t data_bytes = 0;
};

// `take(n)` gives the next n bytes of the file, or fewer at its end.
template <class Take>
Header read_header(Take&& take, const std::string& file) {
  const std::span<const std::byte> magic = take(kMagicBytes);
  if (magic.size() < kMagicBytes || magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    throw UserError(fmt::format("'{}' is no IDX file: its first bytes are wrong", file));
  }
  const auto rank = static_cast<std::size_t>(magic[3]);
  const std::optional<DiskType> type = disk_type(magic[2]);
  if (!type) {
    throw UserError(fmt::format("'{}' is no IDX file: it has the unknown element type {:#04x}", file,
                                static_cast<unsigned>(magic[2])));
  }
  if (rank == 0) throw UserError(fmt::format("'{}': an IDX file needs at least one dimension", file));
  Header header{*type, {}, 0};
  const std::span<const std::byte> sizes = take(rank * kSizeBytes);
  if (sizes.size() < rank * kSizeBytes) throw UserError(fmt::format("'{}' is cut short in its header", file));
  for (std::size_t i = 0; i < sizes.size(); i += kSizeBytes) {
    std::int64_t size = 0;
    for (std::size_t j = 0; j < kSizeBytes; ++j) size = size << 8 | static_cast<std::int64_t>(sizes[i + j]);
    header.shape.push_back(size);
  }
  header.data_bytes = checked_bytes(header.shape, byte_size(*type), file);
  return header;
}

[[noreturn]] void too_short(const std::string& file, std::uint64_t expected) {
  throw UserError(fmt::format("'{}' is cut short: its header promises {} bytes of data", file, expected));
}

Array read_plain(const std::shared_ptr<const MappedFile>& mapped, const std::string& file) {
  std::span<const std::byte> rest = mapped->bytes();
  Header header = read_header(
      [&](std::size_t n) {
        const auto piece = rest.first(std::min(n, rest.size()));
        rest = rest.subspan(piece.size());
        return piece;
      },
      file);
  if (rest.size() < header.data_bytes) too_short(file, header.data_bytes);
  if (rest.size() > header.data_bytes) {
    throw UserError(
        fmt::format("'{}' has {} bytes more than its header promises", file, rest.size() - header.data_bytes));
  }
  return make_array(header.type, true, std::move(header.shape), rest, mapped, file);
}

Array read_gzip(const MappedFile& mapped, const std::string& file) {
  Inflater inflater(mapped.bytes(), Inflater::Format::kGzip, file);
  std::vector<std::byte> piece;
  Header header = read_header(
      [&](std::size_t n) {
        piece.resize(n);
        return std::span<const std::byte>(piece).first(inflater.read(piece));
      },
      file);
  if (header.data_bytes / Inflater::kMaxRatio > mapped.size()) too_short(file, header.data_bytes);
  const std::shared_ptr<std::byte[]> buffer = allocate_bytes(header.data_bytes, file);
  const std::span<std::byte> data(buffer.get(), header.data_bytes);
  if (inflater.read(data) < data.size()) too_short(file, header.data_bytes);
  inflater.expect_end();
  return make_array(header.type, true, std::move(header.shape), data, buffer, file);
}

}  // namespace

Array read_idx(const std::filesystem::path& path) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const std::string file = path.string();
  if (mapped->size() == 0) throw UserError(fmt::format("'{}' is empty", file));
  return is_gzip(mapped->bytes()) ? read_gzip(*mapped, file) : read_plain(mapped, file);
}

}  // namespace neap
