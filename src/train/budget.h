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

// The same where batches are looked for, or ways to compute one: a share would be of each of them. UserError: it is
// not bytes; `who` asks.
std::int64_t budget_in_bytes(std::string_view text, std::string_view who);

}  // namespace neap
