#include "train/data/sequences.h"

#include <algorithm>
#include <cstring>

#include "neap/error.h"
#include "train/data/column.h"
#include "train/data/wanted.h"

namespace neap {
namespace {

constexpr std::int64_t kLineEnd = '\n';
constexpr std::int64_t kEndOfText = 50256;

bool is_blank(std::int64_t token) { return token == ' ' || token == '\t' || token == kLineEnd; }

// Where the sequences of a stream end.
class Ends {
 public:
  Ends(const Array& stream, std::uint64_t begin, std::uint64_t end) : stream_(stream), end_(end) {
    std::uint64_t lines = 0;
    std::uint64_t paragraphs = 0;
    const bool is_text = stream.dtype == DType::kU8;
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::int64_t token = integer_at(stream, i);
      if (!is_text && token == kEndOfText) token_ = kEndOfText;
      if (token != kLineEnd) continue;
      ++lines;
      paragraphs += i + 1 < end && ends_paragraph(i) ? 1 : 0;  // the last line ends no more than itself
    }
    constexpr std::uint64_t kFewLines = 20;  // a paragraph has fewer: else its lines are what the text is made of
    by_paragraph_ = is_text && paragraphs * kFewLines > lines;
  }

  bool is_at(std::uint64_t i) const {
    return integer_at(stream_, i) == token_ && (!by_paragraph_ || ends_paragraph(i));
  }

 private:
  bool ends_paragraph(std::uint64_t line_end) const {
    return line_end + 1 >= end_ || is_blank(integer_at(stream_, line_end + 1));
  }

  const Array& stream_;
  std::uint64_t end_;
  std::int64_t token_ = kLineEnd;
  bool by_paragraph_ = false;
};

}  // namespace

BatchOptions::Limit BatchOptions::limit_at(std::uint64_t batch) const {
  Limit out{.steps = longest};
  for (const Limit& limit : limits) {
    if (limit.batch <= batch) out = limit;
  }
  out.steps = std::min(out.steps, longest);
  return out;
}

std::int64_t padded_length(std::int64_t steps, std::int64_t most) {
  return std::min((steps + kLengthStep - 1) / kLengthStep * kLengthStep, most);
}

bool is_sequence(const Field& field, std::int64_t longest) {
  return is_integer(field.dtype) && field.sample_shape == Shape{longest};
}

void pad_row(const Field& field, std::byte* row, std::int64_t from, std::int64_t to) {
  const std::int64_t value = is_target_name(field.name) ? kIgnoredTarget : 0;
  for (std::int64_t i = from; i < to; ++i) store_integer(field.dtype, row, static_cast<std::uint64_t>(i), value);
}

void cut_rows(const Field& field, std::span<const std::int64_t> lengths, std::int64_t steps, std::byte* data) {
  const std::int64_t stride = sample_bytes(field);
  const std::int64_t bytes = byte_size(field.dtype, steps);
  require(bytes <= stride, "rows are cut, not drawn out");
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::byte* const row = data + static_cast<std::int64_t>(i) * bytes;
    std::memmove(row, data + static_cast<std::int64_t>(i) * stride, static_cast<std::size_t>(bytes));
    pad_row(field, row, std::min(lengths[i], steps), steps);
  }
}

std::vector<TokenSequence> cut_stream(const Array& stream, std::uint64_t begin, std::uint64_t end,
                                      std::uint64_t longest) {
  const Ends ends(stream, begin, end);
  std::vector<TokenSequence> out;
  while (begin < end) {
    std::uint64_t behind = begin;
    while (behind < end && !ends.is_at(behind)) ++behind;
    behind = std::min(behind + 1, end);
    while (begin + 1 < behind) {  // a piece ends with the token that the next begins with: every step is seen once
      const std::uint64_t steps = std::min(longest, behind - 1 - begin);
      out.push_back({.begin = begin, .steps = static_cast<std::uint32_t>(steps)});
      begin += steps;
    }
    begin = behind;
  }
  return out;
}

}  // namespace neap
