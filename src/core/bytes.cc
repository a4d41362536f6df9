#include "core/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "neap/error.h"

namespace neap {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array kUnits = {
    Unit{"", 1},         Unit{"B", 1},      Unit{"kB", 1e3},     Unit{"KB", 1e3},     Unit{"MB", 1e6},
    Unit{"GB", 1e9},     Unit{"TB", 1e12},  Unit{"KiB", 1024.0}, Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30},
    Unit{"TiB", 0x1p40}, Unit{"K", 1024.0}, Unit{"M", 0x1p20},   Unit{"G", 0x1p30},
};

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& u : kUnits) {
    if (status != std::errc() || u.name != unit) continue;
    const double bytes = value * u.bytes;
    if (!std::isfinite(bytes) || bytes < 0 || bytes >= 0x1p62) break;
    return static_cast<std::int64_t>(bytes);
  }
  throw UserError(fmt::format("'{}' is not a size: write bytes, or a number with KiB, MiB, GiB, MB or GB", text));
}

std::string human_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= kGiB) return fmt::format("{:.2f} GiB", value / static_cast<double>(kGiB));
  if (bytes >= kMiB) return fmt::format("{:.1f} MiB", value / static_cast<double>(kMiB));
  if (bytes >= kKiB) return fmt::format("{:.1f} KiB", value / static_cast<double>(kKiB));
  return fmt::format("{} B", bytes);
}

}  // namespace neap
