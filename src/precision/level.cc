#include "precision/level.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"

namespace neap::precision {
namespace {

constexpr std::array<std::string_view, kLevels> kNames = {"fp32", "fp16", "bf16", "int8", "int4", "bit"};

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

std::string_view name(Level level) { return kNames[index_of(level)]; }

std::optional<Level> parse_level(std::string_view text) {
  for (const Level level : kAllLevels) {
    if (name(level) == text) return level;
  }
  return std::nullopt;
}

std::vector<Level> parse_levels(std::string_view text) {
  std::vector<Level> levels;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    const std::string_view word = text.substr(from, to - from);
    const auto level = parse_level(word);
    if (!level) {
      throw UserError(fmt::format("precision_levels: unknown level '{}'; known are {}", word, fmt::join(kNames, ", ")));
    }
    levels.push_back(*level);
    from = to + 1;
  }
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

std::int64_t payload_bytes(Level level, std::int64_t elements) {
  switch (level) {
    case Level::kFp32: return elements * 4;
    case Level::kFp16:
    case Level::kBf16: return elements * 2;
    case Level::kInt8: return elements;
    case Level::kInt4: return rounded_up(elements, 32) / 2;
    case Level::kBit: return rounded_up(elements, 8) / 8;
  }
  throw InternalError("unknown level");
}

std::int64_t history_bytes(Level level, std::int64_t elements) {
  return is_grouped(level) ? rounded_up(elements, kGroup) / kGroup * 8 : 0;
}

std::int64_t history_offset(Level level, std::int64_t elements) {
  return rounded_up(payload_bytes(level, elements), 8);
}

std::int64_t encoded_bytes(Level level, std::int64_t elements) {
  return is_grouped(level) ? history_offset(level, elements) + history_bytes(level, elements)
                           : payload_bytes(level, elements);
}

}  // namespace neap::precision
