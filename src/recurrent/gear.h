// How a recurrent layer runs through its steps: rolled, a step at a time; unrolled, some steps as one piece; or the
// first steps as one piece and the others rolled. And whether the gates are kept for backward. All give the same bits.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recurrent/chunk.h"

namespace neap {

struct Gear {
  enum class Kind : std::uint8_t { kUnrolled, kRolled, kHybrid };
  Kind kind = Kind::kUnrolled;
  std::int32_t steps = 0;  // unrolled: of a piece, 0: as many as there are; hybrid: of the piece at the beginning

  static Gear rolled() { return {Kind::kRolled, 0}; }
  static Gear unrolled(std::int32_t steps) { return {Kind::kUnrolled, steps}; }
  static Gear whole() { return {}; }
  static Gear hybrid(std::int32_t steps) { return {Kind::kHybrid, steps}; }

  std::string text() const;  // rolled, unrolled:8, whole, hybrid:16
  // As a kernel is told (device/geared_kernel.h); 0 is whole().
  std::uint32_t code() const { return static_cast<std::uint32_t>(kind) << 24 | static_cast<std::uint32_t>(steps); }
  static Gear of(std::uint32_t code);
  auto operator<=>(const Gear&) const = default;
};

// The inverse of text(); UserError says what can be written.
Gear parse_gear(std::string_view text);
// Of a list such as rolled,unrolled:4,whole.
std::vector<Gear> parse_gears(std::string_view text);
// rolled, unrolled(2, 4, 8, 16), whole, hybrid(8).
const std::vector<Gear>& default_gears();

// Steps [from, to) in the order of computation.
struct Piece {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t steps() const { return to - from; }
};

// The piece that begins with step `from`, and the one that ends before step `to`. Together the pieces are the chunk;
// the way back finds the same ones. None is longer than shape.longest().
Piece piece_from(const Gear& gear, const ChunkShape& shape, std::int64_t from);
Piece piece_to(const Gear& gear, const ChunkShape& shape, std::int64_t to);

}  // namespace neap
