#include "train/data/token_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "neap/error.h"
#include "train/data/column.h"
#include "train/data/wanted.h"

namespace neap {
namespace {

constexpr std::int64_t kByteVocab = 256;

std::int64_t vocabulary(const Array& stream, const DatasetOptions& options) {
  if (options.vocab > 0) return options.vocab;
  return stream.dtype == DType::kU8 ? kByteVocab : largest(stream) + 1;
}

}  // namespace

TokenSet::TokenSet(Array stream, const DatasetOptions& options, const std::string& label) : stream_(std::move(stream)) {
  vocab_ = vocabulary(stream_, options);
  if (options.wanted.empty()) {
    const Shape shape = {options.length};
    fields_ = {{"tokens", DType::kI32, shape, false}, {"targets", DType::kI32, shape, false}};
    kinds_ = {Kind::kTokens, Kind::kTargets};
    length_ = static_cast<std::uint64_t>(options.length);
  } else {
    take_wanted(options, label);
  }
  if (length_ == 0) throw UserError(fmt::format("'{}': a language set needs the length of its windows", label));
  const bool all_fit = vocab_ >= (stream_.dtype == DType::kU8 ? 1 << 8 : 1 << 16);
  if (!all_fit) check_range(stream_, vocab_, "token", label);
  const auto total = static_cast<std::uint64_t>(stream_.elements());
  const auto held = static_cast<std::uint64_t>(static_cast<double>(total) * options.validation_fraction);
  const bool validation = options.split == Split::kValidation;
  begin_ = validation ? total - held : 0;
  const std::uint64_t tokens = validation ? held : total - held;
  if (options.varying) {
    sequences_ = cut_stream(stream_, begin_, begin_ + tokens, length_);
    size_ = sequences_.size();
    if (size_ == 0) throw UserError(fmt::format("'{}': there is no sequence of two tokens", label));
    return;
  }
  if (tokens <= length_) {
    throw UserError(fmt::format("'{}': {} tokens are too few: a window of {} and what follows it take {}", label,
                                tokens, length_, length_ + 1));
  }
  size_ = (tokens - 1) / length_;
}

void TokenSet::take_wanted(const DatasetOptions& options, const std::string& label) {
  const Roles roles = roles_of(options.wanted);
  if (roles.tokens) {
    const Field& tokens = options.wanted[*roles.tokens];
    length_ = static_cast<std::uint64_t>(tokens.sample_shape.size(0));
    if (tokens.bound > 0) vocab_ = tokens.bound;
  }
  const Shape window = {static_cast<std::int64_t>(length_)};
  for (std::size_t i = 0; i < options.wanted.size(); ++i) {
    const Field& field = options.wanted[i];
    const bool is_target = roles.target == i && is_integer(field.dtype) && field.sample_shape == window;
    const bool is_mask = roles.target != i && is_integer(field.dtype) && field.bound == 0;
    if (!roles.tokens || !(roles.tokens == i || is_target || is_mask)) {
      nothing_for(field, label, fmt::format("tokens and targets of shape {}", window.text()));
    }
    kinds_.push_back(roles.tokens == i ? Kind::kTokens : is_target ? Kind::kTargets : Kind::kOnes);
  }
  fields_ = options.wanted;
}

std::int64_t TokenSet::length(std::uint64_t index, std::int64_t most) const {
  return sequences_.empty() ? most : std::min<std::int64_t>(sequences_.at(index).steps, most);
}

void TokenSet::fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst, const Augment&) const {
  require(field < fields_.size(), "no such field");
  const Field& f = fields_[field];
  const auto count = static_cast<std::uint64_t>(f.sample_shape.count());
  for (const std::uint64_t index : indices) {
    require(index < size_, "sample out of range");
    const std::uint64_t first = sequences_.empty() ? begin_ + index * length_ : sequences_[index].begin;
    const std::uint64_t begin = first + (kinds_[field] == Kind::kTargets ? 1 : 0);
    const std::uint64_t used = sequences_.empty() ? count : std::min<std::uint64_t>(sequences_[index].steps, count);
    for (std::uint64_t i = 0; i < used; ++i) {
      store_integer(f.dtype, dst, i, kinds_[field] == Kind::kOnes ? 1 : integer_at(stream_, begin + i));
    }
    pad_row(f, dst, static_cast<std::int64_t>(used), static_cast<std::int64_t>(count));
    dst += sample_bytes(f);
  }
}

}  // namespace neap
