#include "precision/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace neap::precision {

void WordWriter::put_integer(std::int64_t value) { text_ += fmt::format("{} ", value); }

// The shortest form that reads back to the same bits.
void WordWriter::put(double value) { text_ += fmt::format("{} ", value); }

std::string_view WordReader::word() {
  const std::size_t end = std::min(rest_.find(' '), rest_.size());
  const std::string_view out = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return out;
}

std::int64_t WordReader::integer() {
  const std::string_view text = word();
  std::int64_t out = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  is_good_ = is_good_ && status == std::errc() && end == text.data() + text.size();
  return is_good_ ? out : 0;
}

std::int64_t WordReader::integer(std::int64_t least, std::int64_t most) {
  const std::int64_t out = integer();
  is_good_ = is_good_ && out >= least && out <= most;
  return is_good_ ? out : least;
}

double WordReader::real() {
  const std::string_view text = word();
  double out = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  is_good_ = is_good_ && status == std::errc() && end == text.data() + text.size();
  return is_good_ ? out : 0;
}

}  // namespace neap::precision
