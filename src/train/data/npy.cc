#include "train/data/npy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/file.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 64 * 1024;  // numpy itself refuses more than 10,000

struct Row {
  std::string_view name;
  DiskType type;
};

constexpr std::array kRows = {
    Row{"b1", DiskType::kBool}, Row{"u1", DiskType::kU8},  Row{"i1", DiskType::kI8},  Row{"u2", DiskType::kU16},
    Row{"i2", DiskType::kI16},  Row{"u4", DiskType::kU32}, Row{"i4", DiskType::kI32}, Row{"i8", DiskType::kI64},
    Row{"f4", DiskType::kF32},  Row{"f8", DiskType::kF64},
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: the part of Python's syntax that numpy writes.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& label) : text_(text), label_(label) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      read_entry(read_string());
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (!text_.empty() || !type_ || !fortran_order_ || !shape_) malformed();
  }
  DiskType type() const { return *type_; }
  bool fortran_order() const { return *fortran_order_; }
  const std::vector<std::int64_t>& shape() const { return *shape_; }

 private:
  [[noreturn]] void malformed() const { throw UserError(fmt::format("'{}' has a malformed NPY header", label_)); }

  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string_view read_string() {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) malformed();
    const std::size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) malformed();
    const std::string_view out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return out;
  }

  void read_entry(std::string_view key) {
    expect(':');
    if (key == "descr" && !type_) {
      read_type();
    } else if (key == "fortran_order" && !fortran_order_) {
      fortran_order_ = accept_word("True");
      if (!*fortran_order_ && !accept_word("False")) malformed();
    } else if (key == "shape" && !shape_) {
      read_shape();
    } else {
      malformed();
    }
  }

  void read_type() {
    skip_space();
    if (text_.starts_with('[')) {
      throw UserError(
          fmt::format("'{}' has a structured type: save each of its fields as an array of its own", label_));
    }
    const std::string_view descr = read_string();
    if (descr.starts_with('>')) {
      throw UserError(fmt::format("'{}' is big-endian: save it with astype(a.dtype.newbyteorder('<'))", label_));
    }
    const std::string_view code = descr.substr(descr.empty() || std::string_view("<|=").find(descr[0]) > 2 ? 0 : 1);
    for (const Row& row : kRows) {
      if (row.name == code) type_ = row.type;
    }
    if (!type_) throw UserError(fmt::format("'{}' has type '{}', which Neap does not read", label_, printable(descr)));
  }

  void read_shape() {
    shape_.emplace();
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t size = 0;
      const auto [end, status] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (status == std::errc::result_out_of_range) {
        throw UserError(fmt::format("'{}' has a shape too large for any memory", label_));
      }
      if (status != std::errc() || size < 0 || shape_->size() == kMaxRank) malformed();
      shape_->push_back(size);
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      if (accept(',')) continue;
      expect(')');
      break;
    }
  }

  std::string_view text_;
  const std::string& label_;
  std::optional<DiskType> type_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

// The header's text; `bytes` moves on to what follows it.
std::string_view take_header(std::span<const std::byte>& bytes, const std::string& label) {
  const auto cut_short = [&] { return UserError(fmt::format("'{}' is cut short in its header", label)); };
  if (bytes.empty()) throw UserError(fmt::format("'{}' is empty", label));
  if (!is_npy(bytes)) throw UserError(fmt::format("'{}' is no NPY file: its first bytes are wrong", label));
  bytes = bytes.subspan(kMagic.size());
  if (bytes.size() < 2) throw cut_short();
  const auto version = static_cast<int>(bytes[0]);
  if (version < 1 || version > 3) throw UserError(fmt::format("'{}' has NPY version {}", label, version));
  bytes = bytes.subspan(2);
  const std::size_t width = version == 1 ? 2 : 4;
  std::uint32_t length = 0;
  if (bytes.size() < width) throw cut_short();
  std::memcpy(&length, bytes.data(), width);
  bytes = bytes.subspan(width);
  if (length > kMaxHeader) throw UserError(fmt::format("'{}' has an NPY header of {} bytes", label, length));
  if (bytes.size() < length) throw cut_short();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), length);
  bytes = bytes.subspan(length);
  return text;
}

}  // namespace

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Array parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& label) {
  HeaderParser header(take_header(bytes, label), label);
  header.parse();
  if (header.fortran_order() && header.shape().size() > 1) {
    throw UserError(fmt::format("'{}' is in Fortran order: save numpy.ascontiguousarray(a) instead", label));
  }
  const std::uint64_t expected = checked_bytes(header.shape(), byte_size(header.type()), label);
  if (bytes.size() != expected) {
    throw UserError(
        fmt::format("'{}' has {} bytes of data where its header promises {}", label, bytes.size(), expected));
  }
  return make_array(header.type(), false, header.shape(), bytes, std::move(owner), label);
}

Array read_npy(const std::filesystem::path& path) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  return parse_npy(mapped->bytes(), mapped, path.string());
}

}  // namespace neap
