#include "train/safetensors_header.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "neap/error.h"

namespace neap {
namespace {

struct Row {
  DType type;
  std::string_view name;
};

constexpr std::array kRows = {
    Row{DType::kF32, "F32"}, Row{DType::kF16, "F16"},   Row{DType::kBF16, "BF16"}, Row{DType::kI64, "I64"},
    Row{DType::kI32, "I32"}, Row{DType::kI8, "I8"},     Row{DType::kU8, "U8"},     Row{DType::kU16, "U16"},
    Row{DType::kU64, "U64"}, Row{DType::kBool, "BOOL"},
};

constexpr std::size_t kMaxRank = 32;
constexpr std::string_view kMetadata = "__metadata__";

// Called by the parser value by value: { NAME: { KEY: VALUE | [NUMBER...] } } and nothing else.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafeTensorsHeader& header, const std::string& file) : header_(header), file_(file) {}

  bool start_object(std::size_t) override {
    if (depth_ == 2 || in_list_) fail("holds an object where a value is due");
    if (++depth_ == 2 && !in_metadata()) {
      header_.entries.push_back({.name = name_, .shape = {}});
      seen_ = {};
      offsets_ = 0;
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata()) finish_entry();
    --depth_;
    return true;
  }
  bool key(std::string& key) override {
    if (depth_ == 1) {
      name_ = key;
      if (in_metadata() && std::exchange(metadata_seen_, true)) fail("stands there twice");
    } else {
      key_ = key;
      if (!in_metadata()) note_key();
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_list_ || in_metadata() || key_ == "dtype") wrong_value("a list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != 2 || in_list_ || (!in_metadata() && key_ != "dtype")) wrong_value("a string");
    if (!in_metadata()) {
      entry().dtype = parse_type(text);
    } else if (!header_.metadata.emplace(key_, text).second) {
      fail(fmt::format("has the key '{}' twice", printable(key_)));
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!in_list_) wrong_value("a number");
    if (key_ == "shape") {
      add_dimension(value);
    } else {
      if (offsets_ == 2) fail("has more than two data_offsets");
      (offsets_++ == 0 ? entry().begin : entry().end) = value;
    }
    return true;
  }
  bool number_integer(std::int64_t) override { wrong_value("a negative number"); }
  bool number_float(double, const std::string&) override { wrong_value("a fraction or too large a number"); }
  bool null() override { wrong_value("null"); }
  bool boolean(bool) override { wrong_value("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { wrong_value("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw UserError(fmt::format("'{}': the safetensors header is not valid JSON at its byte {}", file_, position));
  }

 private:
  bool in_metadata() const { return name_ == kMetadata; }
  SafeTensorsEntry& entry() { return header_.entries.back(); }

  [[noreturn]] void fail(std::string_view what) const {
    throw UserError(fmt::format("'{}': tensor '{}' {}", file_, printable(name_), what));
  }
  [[noreturn]] void wrong_value(std::string_view what) const {
    fail(depth_ == 2 ? fmt::format("has {} in its '{}'", what, printable(key_)) : fmt::format("is {}", what));
  }

  void note_key() {
    constexpr std::array<std::string_view, 3> kKeys = {"dtype", "shape", "data_offsets"};
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      if (kKeys[i] != key_) continue;
      if (std::exchange(seen_[i], true)) fail(fmt::format("has '{}' twice", key_));
      return;
    }
    fail(fmt::format("has an unknown key '{}'", printable(key_)));
  }

  DType parse_type(const std::string& text) const {
    for (const Row& row : kRows) {
      if (row.name == text) return row.type;
    }
    fail(fmt::format("has dtype '{}', which Neap does not read", printable(text)));
  }

  void add_dimension(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(fmt::format("has the dimension {}", value));
    }
    if (entry().shape.size() == kMaxRank) fail(fmt::format("has more than {} dimensions", kMaxRank));
    entry().shape.push_back(static_cast<std::int64_t>(value));
  }

  void finish_entry() {
    if (seen_ != std::array{true, true, true}) fail("lacks dtype, shape or data_offsets");
    const SafeTensorsEntry& e = entry();
    if (offsets_ != 2 || e.begin > e.end) fail("has data_offsets that are not [begin, end]");
    std::int64_t bits = byte_size(e.dtype, 1) * 8;  // the format counts in bits below 2^63, so elements stay below 2^60
    for (const std::int64_t size : e.shape) {
      if (__builtin_mul_overflow(bits, size, &bits)) fail("has a shape too large for any memory");
      if (size == 0) break;
    }
    if (const auto bytes = static_cast<std::uint64_t>(bits) / 8; e.end - e.begin != bytes) {
      fail(fmt::format("has {} bytes where its shape and dtype need {}", e.end - e.begin, bytes));
    }
  }

  SafeTensorsHeader& header_;
  const std::string& file_;
  int depth_ = 0;  // of open objects
  bool in_list_ = false;
  bool metadata_seen_ = false;
  std::string name_;
  std::string key_;
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
};

}  // namespace

std::string_view safetensors_name(DType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return row.name;
  }
  return {};
}

SafeTensorsHeader parse_safetensors_header(std::string_view json, const std::string& file) {
  // The parser would skip a byte-order mark, and take a zero byte for the end.
  if (!json.starts_with('{') || json.find('\0') != std::string_view::npos) {
    throw UserError(fmt::format("'{}': the safetensors header is not a JSON object", file));
  }
  SafeTensorsHeader header;
  HeaderReader reader(header, file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return header;
}

}  // namespace neap
