// The forms in which a tensor of floats may be stored, and how many bytes each takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neap::precision {

// From the most precise down. A lower place never takes more bytes.
enum class Level : std::uint8_t {
  kFp32,
  kFp16,
  kBf16,
  kInt8,
  kInt4,
  kBit,  // two values a group; exact where a group has no more than two
};
constexpr int kLevels = 6;
inline constexpr std::array kAllLevels = {Level::kFp32, Level::kFp16, Level::kBf16,
                                          Level::kInt8, Level::kInt4, Level::kBit};

// Elements that share a scale and a zero point in the integer levels.
constexpr std::int64_t kGroup = 256;

std::string_view name(Level level);
std::optional<Level> parse_level(std::string_view text);
// "fp32,int8": sorted, each once. Throws UserError on what is unknown, and on an empty list.
std::vector<Level> parse_levels(std::string_view text);

constexpr std::size_t index_of(Level level) { return static_cast<std::size_t>(level); }
constexpr bool is_grouped(Level level) { return level >= Level::kInt8; }
// Steps from a group's least value to its greatest; 0 for levels without groups.
constexpr int steps(Level level) {
  return level == Level::kInt8 ? 255 : level == Level::kInt4 ? 15 : level == Level::kBit ? 1 : 0;
}

// The elements themselves. INT4 is padded to a multiple of 32 elements.
std::int64_t payload_bytes(Level level, std::int64_t elements);
// Scale and zero point of every group: 8 bytes each, 0 for levels without groups.
std::int64_t history_bytes(Level level, std::int64_t elements);
// Where the history begins when it stands behind the payload: a multiple of 8.
std::int64_t history_offset(Level level, std::int64_t elements);
// Both in one block.
std::int64_t encoded_bytes(Level level, std::int64_t elements);

}  // namespace neap::precision
