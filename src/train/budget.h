// --budget: bytes, or a share of what storing everything takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace neap {

struct BudgetBase {
  std::int64_t state_bytes = 0;
  std::int64_t store_all_bytes = 0;
  std::int64_t min_bytes = 0;
};

// "512MiB", "2GB", "min", "min+10%", "50%" (state plus that share of what store-all needs beyond it); empty: none.
// UserError when malformed.
std::optional<std::int64_t> parse_budget(std::string_view text, const BudgetBase& base);

}  // namespace neap
