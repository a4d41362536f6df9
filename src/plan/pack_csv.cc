#include "plan/pack_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "core/file.h"
#include "neap/error.h"

namespace neap {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 62;
constexpr std::string_view kBlanks = " \t";
enum Column { kId, kLower, kUpper, kSize, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {"id", "lower", "upper", "size"};

std::string_view trim(std::string_view s) {
  const auto from = s.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return {};
  return s.substr(from, s.find_last_not_of(kBlanks) - from + 1);
}

// Ids go into JSON, which is UTF-8 throughout.
bool is_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto byte = static_cast<unsigned char>(s[i]);
    const std::size_t more = byte < 0x80 ? 0 : byte >= 0xC2 && byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    if ((byte >= 0x80 && byte < 0xC2) || byte > 0xF4 || i + more >= s.size()) return false;
    const auto second = more > 0 ? static_cast<unsigned char>(s[i + 1]) : 0x80U;
    if ((byte == 0xE0 && second < 0xA0) || (byte == 0xED && second > 0x9F)) return false;  // too long; surrogates
    if ((byte == 0xF0 && second < 0x90) || (byte == 0xF4 && second > 0x8F)) return false;  // too long; too large
    for (std::size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(s[i + k]) & 0xC0U) != 0x80U) return false;
    }
    i += more + 1;
  }
  return true;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  PackTable run() {
    std::string_view line;
    if (!next_line(line)) throw UserError(fmt::format("{}: no header; id,lower,upper,size is wanted", file_));
    read_header(line);
    while (next_line(line)) read_row(line);
    return std::move(table_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}", file_, line_number_, what));
  }

  // The next line that is not empty, without its end.
  bool next_line(std::string_view& line) {
    while (!text_.empty()) {
      const auto end = text_.find('\n');
      line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++line_number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!trim(line).empty()) return true;
    }
    return false;
  }

  std::vector<std::string> fields(std::string_view line) const {
    std::vector<std::string> out;
    for (bool is_more = true; is_more;) {
      const auto start = line.find_first_not_of(kBlanks);
      if (start != std::string_view::npos && line[start] == '"') {
        line.remove_prefix(start + 1);
        out.push_back(take_quoted(line));
        line = trim(line);
        if (!line.empty() && line[0] != ',') fail("something stands between a closing quote and the comma");
      } else {
        out.emplace_back(trim(line.substr(0, line.find(','))));
        line.remove_prefix(std::min(line.find(','), line.size()));
      }
      is_more = !line.empty();
      if (is_more) line.remove_prefix(1);
    }
    return out;
  }

  // Up to the closing quote; two quotes stand for one.
  std::string take_quoted(std::string_view& line) const {
    std::string out;
    while (!line.empty()) {
      const char c = line[0];
      line.remove_prefix(1);
      if (c == '"' && !line.starts_with('"')) return out;
      if (c == '"') line.remove_prefix(1);
      out += c;
    }
    fail("a quote is not closed on its line");
  }

  void read_header(std::string_view line) {
    columns_ = fields(line);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] == "offset") continue;
      const auto known = std::find(kNames.begin(), kNames.end(), columns_[i]);
      if (known == kNames.end()) {
        fail(fmt::format("unknown column '{}'; the columns are id, lower, upper, size", printable(columns_[i])));
      }
      auto& at = where_[static_cast<std::size_t>(known - kNames.begin())];
      if (at) fail(fmt::format("column '{}' is there twice", columns_[i]));
      at = i;
    }
    for (std::size_t c = 0; c < kColumns; ++c) {
      if (!where_[c]) fail(fmt::format("column '{}' is missing; the header is id,lower,upper,size", kNames[c]));
    }
  }

  std::int64_t number(const std::string& text, Column column) const {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_number = stop == end && !text.empty() && error != std::errc::invalid_argument;
    if (!is_number) fail(fmt::format("{} '{}' is not a whole number", kNames[column], printable(text)));
    if (error == std::errc::result_out_of_range || value > kMost || value < -kMost) {
      fail(fmt::format("{} {} is beyond 2^62", kNames[column], printable(text)));
    }
    return value;
  }

  void read_row(std::string_view line) {
    std::vector<std::string> row = fields(line);
    if (row.size() != columns_.size()) fail(fmt::format("{} fields, the header has {}", row.size(), columns_.size()));
    std::string& id = row[*where_[kId]];
    PackItem item{.lower = number(row[*where_[kLower]], kLower),
                  .upper = number(row[*where_[kUpper]], kUpper),
                  .size = number(row[*where_[kSize]], kSize)};
    if (id.empty()) fail("the id is empty");
    if (!is_utf8(id)) fail(fmt::format("id '{}' is not UTF-8", printable(id)));
    if (item.lower >= item.upper) fail(fmt::format("lower {} is not below upper {}", item.lower, item.upper));
    if (item.size < 0) fail(fmt::format("size {} is negative", item.size));
    if (item.size > kMost - sum_) fail("the sizes add up to more than 2^62 bytes");
    sum_ += item.size;
    const auto [first, is_new] = line_of_.try_emplace(id, line_number_);
    if (!is_new) fail(fmt::format("id '{}' is on line {} already", printable(id), first->second));
    table_.ids.push_back(std::move(id));
    table_.items.push_back(item);
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_number_ = 0;
  std::vector<std::string> columns_;
  std::array<std::optional<std::size_t>, kColumns> where_;
  std::unordered_map<std::string, std::size_t> line_of_;
  std::int64_t sum_ = 0;
  PackTable table_;
};

std::string quoted_if_need_be(const std::string& id) {
  if (id.find_first_of(",\"") == std::string::npos && trim(id) == id) return id;
  std::string out = "\"";
  for (const char c : id) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

PackTable parse_pack_csv(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

std::string to_csv(const PackTable& table, const std::vector<std::int64_t>& offsets) {
  std::string out = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < table.items.size(); ++i) {
    const PackItem& item = table.items[i];
    out +=
        fmt::format("{},{},{},{},{}\n", quoted_if_need_be(table.ids[i]), item.lower, item.upper, item.size, offsets[i]);
  }
  return out;
}

}  // namespace neap
