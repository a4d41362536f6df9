#include "train/budget.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

// "50%" -> 0.5
std::optional<double> parse_share(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = status == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value >= 0) || value > 1e6) return std::nullopt;
  return value / 100;
}

std::int64_t scaled(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(bytes) * share));
}

}  // namespace

std::optional<std::int64_t> parse_budget(std::string_view text, const BudgetBase& base) {
  if (text.empty()) return std::nullopt;
  if (text == "min") return base.min_bytes;
  if (text.starts_with("min+")) {
    if (const auto share = parse_share(text.substr(4))) return base.min_bytes + scaled(base.min_bytes, *share);
    throw UserError(fmt::format("--budget '{}': write min, or min+10%", text));
  }
  if (const auto share = parse_share(text)) {
    return base.state_bytes + scaled(base.store_all_bytes - base.state_bytes, *share);
  }
  try {
    return parse_bytes(text);
  } catch (const UserError&) {
    throw UserError(fmt::format("--budget '{}': write bytes, 512MiB, 50%, min or min+10%", text));
  }
}

std::int64_t budget_in_bytes(std::string_view text, std::string_view who) {
  try {
    return parse_bytes(text);
  } catch (const UserError&) {
    throw UserError(fmt::format(
        "{}: --budget '{}' must be bytes, as in 512MiB; a share is of one batch and one way to compute it", who, text));
  }
}

}  // namespace neap
