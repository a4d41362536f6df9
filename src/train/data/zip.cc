#include "train/data/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "neap/error.h"
#include "train/data/array.h"
#include "train/data/inflate.h"

namespace neap {
namespace {

// Names as in the format's specification (APPNOTE 6.3), sizes in bytes.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kMaxComment = 0xffff;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint32_t kSeeZip64 = 0xffffffff;

// Fields at offsets that were checked to lie inside.
template <class T>
T field(std::span<const std::byte> record, std::size_t offset) {
  T value;
  std::memcpy(&value, record.data() + offset, sizeof(T));
  return value;
}

class Directory {
 public:
  explicit Directory(const MappedFile& file) : bytes_(file.bytes()), file_(file.path().string()) {}

  std::vector<ZipMember> list() {
    locate();
    std::vector<ZipMember> members;
    std::size_t at = start_;
    for (std::uint64_t i = 0; i < count_; ++i) {
      members.push_back(read_member(at));
      at += kCentralBytes + name_bytes(at) + field<std::uint16_t>(slice(at, kCentralBytes), 30) +
            field<std::uint16_t>(slice(at, kCentralBytes), 32);
    }
    if (at > end_) fail("is damaged: its directory is longer than it says");
    check_apart(members);
    return members;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { throw UserError(fmt::format("'{}' {}", file_, what)); }

  std::span<const std::byte> slice(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) fail("is damaged or cut short: a record lies outside");
    return bytes_.subspan(offset, size);
  }
  std::size_t name_bytes(std::size_t at) const { return field<std::uint16_t>(slice(at, kCentralBytes), 28); }

  // The end record is the last thing in the file but for a comment whose length it states.
  std::size_t find_end() const {
    if (bytes_.empty()) fail("is empty");
    for (std::size_t comment = 0; comment <= kMaxComment && comment + kEndBytes <= bytes_.size(); ++comment) {
      const std::size_t at = bytes_.size() - kEndBytes - comment;
      const auto record = bytes_.subspan(at, kEndBytes);
      if (field<std::uint32_t>(record, 0) == kEndSignature && field<std::uint16_t>(record, 20) == comment) return at;
    }
    fail("is no ZIP archive, or cut short: it has no directory at its end");
  }

  void locate() {
    end_ = find_end();
    const auto record = slice(end_, kEndBytes);
    if (field<std::uint16_t>(record, 4) != field<std::uint16_t>(record, 6)) fail("is one part of a split archive");
    count_ = field<std::uint16_t>(record, 10);
    std::uint64_t size = field<std::uint32_t>(record, 12);
    start_ = field<std::uint32_t>(record, 16);
    const bool has_locator =
        end_ >= kLocator64Bytes && field<std::uint32_t>(slice(end_ - kLocator64Bytes, 4), 0) == kLocator64Signature;
    if (has_locator) {
      const auto at = field<std::uint64_t>(slice(end_ - kLocator64Bytes, kLocator64Bytes), 8);
      const auto record64 = slice(at, kEnd64Bytes);
      if (field<std::uint32_t>(record64, 0) != kEnd64Signature) fail("is damaged: its ZIP64 directory is missing");
      count_ = field<std::uint64_t>(record64, 32);
      size = field<std::uint64_t>(record64, 40);
      start_ = field<std::uint64_t>(record64, 48);
      end_ = at;
    }
    const bool inside = start_ <= end_ && size == end_ - start_;
    if (!inside || count_ > size / kCentralBytes) fail("is damaged: its directory does not lie where it says");
  }

  ZipMember read_member(std::size_t at) const {
    const auto record = slice(at, kCentralBytes);
    if (field<std::uint32_t>(record, 0) != kCentralSignature) fail("is damaged: its directory is broken");
    const auto name = slice(at + kCentralBytes, name_bytes(at));
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    if ((field<std::uint16_t>(record, 8) & kEncrypted) != 0) fail_at(member, "is encrypted");
    const auto method = field<std::uint16_t>(record, 10);
    if (method != 0 && method != Z_DEFLATED) fail_at(member, fmt::format("is packed by method {}", method));
    member.deflated = method == Z_DEFLATED;
    member.crc = field<std::uint32_t>(record, 16);
    std::uint64_t packed = field<std::uint32_t>(record, 20);
    member.size = field<std::uint32_t>(record, 24);
    std::uint64_t local = field<std::uint32_t>(record, 42);
    const auto extra = slice(at + kCentralBytes + name.size(), field<std::uint16_t>(record, 30));
    apply_zip64(extra, {&member.size, &packed, &local});
    member.packed = packed_bytes(member, local, packed);
    if (!member.deflated && packed != member.size) fail_at(member, "is stored with a wrong size");
    if (member.deflated && member.size / Inflater::kMaxRatio > packed) fail_at(member, "claims an impossible size");
    return member;
  }

  // The extra field 1 holds those of the values that do not fit 32 bits, in this order.
  void apply_zip64(std::span<const std::byte> extra, std::initializer_list<std::uint64_t*> values) const {
    while (extra.size() >= 4) {
      const auto id = field<std::uint16_t>(extra, 0);
      const std::size_t size = field<std::uint16_t>(extra, 2);
      if (size > extra.size() - 4) fail("is damaged: an extra field is too long");
      auto data = extra.subspan(4, size);
      for (std::uint64_t* value : values) {
        if (id != kZip64Extra || *value != kSeeZip64 || data.size() < 8) continue;
        *value = field<std::uint64_t>(data, 0);
        data = data.subspan(8);
      }
      extra = extra.subspan(4 + size);
    }
  }

  std::span<const std::byte> packed_bytes(const ZipMember& member, std::uint64_t local, std::uint64_t size) const {
    const auto header = slice(local, kLocalBytes);
    if (field<std::uint32_t>(header, 0) != kLocalSignature) fail_at(member, "is not where the directory says");
    const std::uint64_t begin =
        local + kLocalBytes + field<std::uint16_t>(header, 26) + field<std::uint16_t>(header, 28);
    if (begin > start_ || size > start_ - begin) fail_at(member, "is cut short");
    return slice(begin, size);
  }

  // Members that share bytes are how an archive of a few kilobytes unpacks to petabytes.
  void check_apart(const std::vector<ZipMember>& members) const {
    std::vector<const ZipMember*> order;
    for (const ZipMember& m : members) order.push_back(&m);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->name < b->name; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (order[i]->name == order[i - 1]->name) fail_at(*order[i], "is in it twice");
    }
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->packed.data() < b->packed.data(); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto& before = order[i - 1]->packed;
      // A local header must fit between two members too.
      if (before.data() + before.size() + kLocalBytes > order[i]->packed.data()) fail_at(*order[i], "overlaps another");
    }
  }

  [[noreturn]] void fail_at(const ZipMember& member, std::string_view what) const {
    throw UserError(fmt::format("'{}': '{}' {}", file_, printable(member.name), what));
  }

  std::span<const std::byte> bytes_;
  std::string file_;
  std::uint64_t start_ = 0;  // of the central directory
  std::uint64_t end_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace

std::vector<ZipMember> list_zip(const MappedFile& file) { return Directory(file).list(); }

ZipData unpack(const ZipMember& member, const std::shared_ptr<const MappedFile>& file) {
  const std::string label = fmt::format("{}:{}", file->path().string(), printable(member.name));
  ZipData data{member.packed, file};
  if (member.deflated) {
    const std::shared_ptr<std::byte[]> buffer = allocate_bytes(member.size, label);
    const std::span<std::byte> out(buffer.get(), member.size);
    Inflater inflater(member.packed, Inflater::Format::kDeflate, label);
    if (inflater.read(out) < out.size()) throw UserError(fmt::format("'{}' is shorter than it should be", label));
    inflater.expect_end();
    data = {out, buffer};
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.bytes.data()), data.bytes.size());
  if (crc != member.crc) throw UserError(fmt::format("'{}' is damaged: its check sum is wrong", label));
  return data;
}

}  // namespace neap
