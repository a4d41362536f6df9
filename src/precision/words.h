// Numbers as words of a text, to the bit: for what a run keeps in its checkpoints.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace neap::precision {

class WordWriter {
 public:
  void put(std::integral auto value) { put_integer(static_cast<std::int64_t>(value)); }
  void put(double value);
  const std::string& text() const { return text_; }

 private:
  void put_integer(std::int64_t value);
  std::string text_;
};

// What is missing or no number makes it fail for good; zeros are read from then on.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : rest_(text) {}
  std::int64_t integer();
  double real();
  // An integer of [least, most].
  std::int64_t integer(std::int64_t least, std::int64_t most);
  bool is_good() const { return is_good_; }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view word();
  std::string_view rest_;
  bool is_good_ = true;
};

}  // namespace neap::precision
