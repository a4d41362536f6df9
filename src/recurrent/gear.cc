#include "recurrent/gear.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "neap/error.h"

namespace neap {
namespace {

constexpr std::int32_t kMostSteps = 1 << 20;

// Where pieces of equal length stand: [first, last) is cut into pieces of `length`, what lies outside into single
// steps.
struct Cut {
  std::int64_t first = 0, last = 0, length = 1;
};

Cut cut_of(const Gear& gear, const ChunkShape& s) {
  const std::int64_t most = s.longest();
  switch (gear.kind) {
    case Gear::Kind::kRolled: return {};
    case Gear::Kind::kUnrolled: {
      const std::int64_t wanted = gear.steps == 0 ? s.steps : gear.steps;
      return {0, s.steps, std::min(wanted, most)};
    }
    case Gear::Kind::kHybrid: {
      // By time: a layer that runs backwards unrolls the same steps, which come last there.
      const std::int64_t count = std::clamp<std::int64_t>(gear.steps - s.start, 0, s.steps);
      return {s.reverse ? s.steps - count : 0, s.reverse ? s.steps : count,
              std::min(std::max<std::int64_t>(count, 1), most)};
    }
  }
  return {};
}

[[noreturn]] void refuse(std::string_view text) {
  throw UserError(fmt::format(
      "'{}' is no way to run a recurrent layer; take rolled, whole, unrolled:X or hybrid:N with 1 <= X, N <= {}", text,
      kMostSteps));
}

std::int32_t steps_in(std::string_view text, std::string_view number) {
  std::int32_t out = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out);
  if (error != std::errc{} || end != number.data() + number.size() || out < 1 || out > kMostSteps) refuse(text);
  return out;
}

}  // namespace

std::string Gear::text() const {
  if (kind == Kind::kRolled) return "rolled";
  if (kind == Kind::kHybrid) return fmt::format("hybrid:{}", steps);
  return steps == 0 ? "whole" : fmt::format("unrolled:{}", steps);
}

Gear Gear::of(std::uint32_t code) {
  const std::uint32_t kind = std::min<std::uint32_t>(code >> 24, static_cast<std::uint32_t>(Kind::kHybrid));
  return {static_cast<Kind>(kind), static_cast<std::int32_t>(code & 0xffffff)};
}

Gear parse_gear(std::string_view text) {
  if (text == "rolled") return Gear::rolled();
  if (text == "whole") return Gear::whole();
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse(text);
  const std::string_view kind = text.substr(0, colon);
  if (kind == "unrolled") return Gear::unrolled(steps_in(text, text.substr(colon + 1)));
  if (kind == "hybrid") return Gear::hybrid(steps_in(text, text.substr(colon + 1)));
  refuse(text);
}

std::vector<Gear> parse_gears(std::string_view text) {
  std::vector<Gear> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const Gear gear = parse_gear(text.substr(at, comma - at));
    if (std::find(out.begin(), out.end(), gear) == out.end()) out.push_back(gear);
    at = comma + 1;
  }
  return out;
}

const std::vector<Gear>& default_gears() {
  static const std::vector<Gear> kGears = {Gear::rolled(),     Gear::unrolled(2), Gear::unrolled(4), Gear::unrolled(8),
                                           Gear::unrolled(16), Gear::whole(),     Gear::hybrid(8)};
  return kGears;
}

Piece piece_from(const Gear& gear, const ChunkShape& shape, std::int64_t from) {
  const Cut cut = cut_of(gear, shape);
  if (from < cut.first || from >= cut.last) return {from, from + 1};
  return {from, std::min(cut.last, from + cut.length)};
}

Piece piece_to(const Gear& gear, const ChunkShape& shape, std::int64_t to) {
  const Cut cut = cut_of(gear, shape);
  const std::int64_t last = to - 1;
  if (last < cut.first || last >= cut.last) return {last, to};
  return {cut.first + (last - cut.first) / cut.length * cut.length, to};
}

}  // namespace neap
