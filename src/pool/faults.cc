#include "pool/faults.h"

#include <fmt/format.h>

#include <charconv>

#include "core/bytes.h"
#include "neap/error.h"

namespace neap {
namespace {

std::int64_t number_in(const std::string& text, const std::string& whole) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 1) {
    throw UserError(fmt::format("--spill-fault '{}': '{}' is no number of a transfer", whole, text));
  }
  return out;
}

}  // namespace

std::shared_ptr<SpillFaults> parse_spill_faults(const std::string& text) {
  if (text.empty()) return nullptr;
  auto out = std::make_shared<SpillFaults>();
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "full" || kind == "bad") {
    const bool is_full = kind == "full";
    const std::size_t at = value.find('@');
    (is_full ? out->full_bytes : out->bad_place) = parse_bytes(value.substr(0, at));
    if (at == std::string::npos) return out;
    const std::string when = value.substr(at + 1);
    const std::size_t dash = is_full ? when.find('-') : std::string::npos;
    (is_full ? out->full_from : out->bad_from) = number_in(when.substr(0, dash), text);
    if (dash != std::string::npos) out->full_to = number_in(when.substr(dash + 1), text);
    return out;
  }
  std::int64_t* const place = kind == "fail-write"     ? &out->fail_write
                              : kind == "fail-read"    ? &out->fail_read
                              : kind == "corrupt-read" ? &out->corrupt_read
                              : kind == "slow"         ? &out->slow_from
                              : kind == "fail-growth"  ? &out->fail_growth
                                                       : nullptr;
  if (place == nullptr) throw UserError(fmt::format("--spill-fault '{}': there is no such fault", text));
  *place = number_in(value, text);
  return out;
}

}  // namespace neap
