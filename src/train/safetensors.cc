#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "neap/error.h"
#include "train/safetensors_header.h"

namespace neap {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and read in place");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library
constexpr std::size_t kHeaderAlignment = 8;

std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.empty()) throw UserError(fmt::format("'{}' is empty", file));
  if (bytes.size() < kLengthBytes) throw UserError(fmt::format("'{}' is too short for a safetensors file", file));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
    throw UserError(fmt::format("'{}' is no safetensors file, or cut short: its header would take {} bytes of {}", file,
                                length, bytes.size()));
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

// Sorts by place and demands that each begins where the one before ends, up to the end of the file.
void check_cover(std::vector<SafeTensorsEntry>& entries, std::uint64_t data_bytes, const std::string& file) {
  std::stable_sort(entries.begin(), entries.end(), [](const SafeTensorsEntry& a, const SafeTensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const SafeTensorsEntry& e : entries) {
    const char* fault = e.end > data_bytes   ? "reaches beyond the end of the file"
                        : e.begin < expected ? "overlaps the tensor before it"
                        : e.begin > expected ? "leaves a hole before it"
                                             : nullptr;
    if (fault != nullptr) {
      throw UserError(
          fmt::format("'{}': tensor '{}' at bytes {} to {} {}", file, printable(e.name), e.begin, e.end, fault));
    }
    expected = e.end;
  }
  if (expected != data_bytes) {
    throw UserError(fmt::format("'{}': {} bytes at the end belong to no tensor", file, data_bytes - expected));
  }
}

void check_writable(const SafeTensor& t, const std::string& file) {
  if (safetensors_name(t.dtype).empty()) {
    throw UserError(fmt::format("'{}': tensor '{}' has type {}, which safetensors cannot hold", file, printable(t.name),
                                name(t.dtype)));
  }
  if (t.name == "__metadata__") throw UserError(fmt::format("'{}': no tensor may be named __metadata__", file));
  require(static_cast<std::size_t>(byte_size(t.dtype, t.shape.count())) == t.data.size(),
          "tensor and its bytes differ");
}

std::vector<const SafeTensor*> writing_order(std::span<const SafeTensor> tensors, const std::string& file) {
  std::vector<const SafeTensor*> order;
  for (const SafeTensor& t : tensors) {
    check_writable(t, file);
    order.push_back(&t);
  }
  const auto key = [](const SafeTensor* t) { return std::pair(-byte_size(t->dtype, 1), std::string_view(t->name)); };
  std::sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  std::vector<std::string_view> names;
  for (const SafeTensor* t : order) names.emplace_back(t->name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    throw UserError(fmt::format("'{}': tensor '{}' would be written twice", file, printable(*twice)));
  }
  return order;
}

std::string header_of(const std::vector<const SafeTensor*>& order, const SafeTensorsMetadata& metadata,
                      const std::string& file) try {
  using Json = nlohmann::json;
  std::string text;
  if (!metadata.empty()) text = fmt::format("\"__metadata__\":{}", Json(metadata).dump());
  std::uint64_t offset = 0;
  for (const SafeTensor* t : order) {
    const std::uint64_t end = offset + t->data.size();
    if (!text.empty()) text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", Json(t->name).dump(),
                        safetensors_name(t->dtype), t->shape.text(), offset, end);
    offset = end;
  }
  text = "{" + text + "}";
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  if (text.size() > kMaxHeader) throw UserError(fmt::format("'{}': too many tensors for one file", file));
  return text;
} catch (const nlohmann::json::type_error&) {
  throw UserError(fmt::format("'{}': a tensor's name or metadata is not UTF-8", file));
}

}  // namespace

SafeTensorsFile::SafeTensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string file = path.string();
  const std::string_view text = header_text(file_.bytes(), file);
  SafeTensorsHeader header = parse_safetensors_header(text, file);
  const std::span<const std::byte> data = file_.bytes().subspan(kLengthBytes + text.size());
  check_cover(header.entries, data.size(), file);
  tensors_.reserve(header.entries.size());  // by_name_ refers to the names in place
  for (SafeTensorsEntry& e : header.entries) {
    const SafeTensor& t = tensors_.emplace_back(
        SafeTensor{std::move(e.name), e.dtype, Shape::of(e.shape), data.subspan(e.begin, e.end - e.begin)});
    if (!by_name_.emplace(t.name, tensors_.size() - 1).second) {
      throw UserError(fmt::format("'{}': tensor '{}' stands there twice", file, printable(t.name)));
    }
  }
  metadata_ = std::move(header.metadata);
}

const SafeTensor* SafeTensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafeTensor> tensors,
                       const SafeTensorsMetadata& metadata) {
  const std::vector<const SafeTensor*> order = writing_order(tensors, path.string());
  const std::string header = header_of(order, metadata, path.string());
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const SafeTensor* t : order) file.write(t->data);
  file.commit();
}

}  // namespace neap
