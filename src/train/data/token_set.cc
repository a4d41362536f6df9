#include "train/data/token_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "train/data/column.h"

namespace neap {
namespace {

constexpr std::int64_t kByteVocab = 256;

template <class T>
void copy_tokens(const Array& stream, std::uint64_t begin, std::uint64_t count, std::int32_t* dst) {
  for (std::uint64_t i = 0; i < count; ++i) dst[i] = element<T>(stream, begin + i);
}

std::int64_t vocabulary(const Array& stream, const DatasetOptions& options) {
  if (options.vocab > 0) return options.vocab;
  return stream.dtype == DType::kU8 ? kByteVocab : largest(stream) + 1;
}

}  // namespace

TokenSet::TokenSet(Array stream, const DatasetOptions& options, const std::string& label) : stream_(std::move(stream)) {
  if (options.length <= 0) throw UserError(fmt::format("'{}': a language set needs the length of its windows", label));
  length_ = static_cast<std::uint64_t>(options.length);
  vocab_ = vocabulary(stream_, options);
  const bool all_fit = vocab_ >= (stream_.dtype == DType::kU8 ? 1 << 8 : 1 << 16);
  if (!all_fit) check_range(stream_, vocab_, "token", label);
  const auto total = static_cast<std::uint64_t>(stream_.elements());
  const auto held = static_cast<std::uint64_t>(static_cast<double>(total) * options.validation_fraction);
  const bool validation = options.split == Split::kValidation;
  begin_ = validation ? total - held : 0;
  const std::uint64_t tokens = validation ? held : total - held;
  if (tokens <= length_) {
    throw UserError(fmt::format("'{}': {} tokens are too few: a window of {} and what follows it take {}", label,
                                tokens, length_, length_ + 1));
  }
  size_ = (tokens - 1) / length_;
  const Shape shape = {options.length};
  fields_ = {{"tokens", DType::kI32, shape, false}, {"targets", DType::kI32, shape, false}};
}

void TokenSet::fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst, const Augment&) const {
  require(field < fields_.size(), "no such field");
  auto* to = reinterpret_cast<std::int32_t*>(dst);
  for (const std::uint64_t index : indices) {
    require(index < size_, "sample out of range");
    const std::uint64_t begin = begin_ + index * length_ + field;  // targets are one further on
    if (stream_.dtype == DType::kU8) {
      copy_tokens<std::uint8_t>(stream_, begin, length_, to);
    } else {
      copy_tokens<std::uint16_t>(stream_, begin, length_, to);
    }
    to += length_;
  }
}

}  // namespace neap
