#include "train/data/array_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "neap/error.h"
#include "train/data/sampler.h"
#include "train/data/wanted.h"

namespace neap {

ArraySet::ArraySet(std::vector<Source> sources, const DatasetOptions& options) {
  if (options.wanted.empty()) {
    add_all(std::move(sources), options);
  } else {
    add_wanted(std::move(sources), options);
  }
  for (const auto& column : columns_) fields_.push_back(column->field);
}

void ArraySet::check_length(const Array& array, const std::string& label) {
  const auto samples = static_cast<std::uint64_t>(array.shape[0]);
  if (size_ == 0) {
    size_ = samples;
    first_label_ = label;
  }
  if (samples == size_) return;
  throw UserError(fmt::format("'{}' has {} samples and '{}' has {}", first_label_, size_, label, samples));
}

void ArraySet::add_all(std::vector<Source> sources, const DatasetOptions& options) {
  const auto labels = std::count_if(sources.begin(), sources.end(), [](const Source& s) { return is_label(s.array); });
  for (Source& source : sources) {
    const Array array = source.array;
    columns_.push_back(make_column(source.name, std::move(source.array), options, source.label));
    check_length(array, source.label);
    if (is_label(array) && labels == 1) {
      classes_ = options.classes > 0 ? options.classes : largest(array) + 1;
      check_range(array, classes_, "label", source.label);
    }
  }
}

// One column for each wanted field, in their order. Sources that are not wanted are left out.
void ArraySet::add_wanted(std::vector<Source> sources, const DatasetOptions& options) {
  const Roles roles = roles_of(options.wanted);
  columns_.resize(options.wanted.size());
  std::string has;
  for (Source& source : sources) {
    has += (has.empty() ? "" : ", ") + source.name;
    const auto at = wanted_for(source.name, options.wanted, roles);
    if (!at) continue;
    const Field& wanted = options.wanted[*at];
    if (columns_[*at]) {
      throw UserError(fmt::format("'{}': two arrays are for the model's input '{}'", source.label, wanted.name));
    }
    const Array array = source.array;
    columns_[*at] = make_column(wanted, std::move(source.array), options, source.label);
    check_length(array, source.label);
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i]) nothing_for(options.wanted[i], sources.empty() ? "" : sources[0].label, has);
  }
}

void ArraySet::fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
                    const Augment& augment) const {
  const auto bytes = static_cast<std::size_t>(sample_bytes(fields_.at(field)));
  for (const std::uint64_t index : indices) {
    require(index < size_, "sample out of range");
    columns_[field]->copy(index, augment, dst);
    dst += bytes;
  }
}

SubsetSet::SubsetSet(std::shared_ptr<const Dataset> whole, std::vector<std::uint64_t> indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {
  size_ = indices_.size();
  fields_ = whole_->fields();
  classes_ = whole_->classes();
  vocab_ = whole_->vocab();
}

void SubsetSet::fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
                     const Augment& augment) const {
  std::vector<std::uint64_t> inner;
  inner.reserve(indices.size());
  for (const std::uint64_t index : indices) inner.push_back(indices_.at(index));
  whole_->fill(inner, field, dst, augment);
}

std::shared_ptr<const Dataset> hold_out(std::shared_ptr<const Dataset> whole, const DatasetOptions& options) {
  const bool validation = options.split == Split::kValidation;
  if (options.validation_fraction == 0) return whole;
  const auto share = static_cast<std::uint64_t>(static_cast<double>(whole->size()) * options.validation_fraction);
  const std::uint64_t held = std::max<std::uint64_t>(share, 1);
  if (held >= whole->size()) throw UserError("the data set is too small to hold a part of it out for validation");
  const std::vector<std::uint64_t> order = permutation(whole->size(), mix(options.seed, hash_text("hold out")));
  const auto border = order.begin() + static_cast<std::ptrdiff_t>(held);
  std::vector<std::uint64_t> chosen(validation ? order.begin() : border, validation ? border : order.end());
  std::sort(chosen.begin(), chosen.end());
  return std::make_shared<SubsetSet>(std::move(whole), std::move(chosen));
}

}  // namespace neap
