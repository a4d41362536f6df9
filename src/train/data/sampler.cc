#include "train/data/sampler.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "core/random.h"
#include "neap/error.h"

namespace neap {

std::vector<std::uint64_t> permutation(std::uint64_t size, std::uint64_t key) {
  std::vector<std::uint64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(key);
  for (std::uint64_t i = size; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (options.batch == 0) throw UserError("a batch needs at least one sample");
  if (rows() > options.size) {
    throw UserError(
        fmt::format("a batch of {} is larger than the data set, which has {} samples", rows(), options.size));
  }
}

void Sampler::line_up() {
  const std::uint64_t stretch = options_.size / rows();
  order_.resize(stretch * rows());
  for (std::uint64_t i = 0; i < order_.size(); ++i) order_[i] = i % rows() * stretch + i / rows();
}

void Sampler::shuffle() {
  if (options_.streams) {
    if (order_.empty()) line_up();
    return;
  }
  if (!order_.empty() && (!options_.shuffle || shuffled_epoch_ == position_.epoch)) return;
  if (options_.shuffle) {
    order_ = permutation(options_.size, mix(mix(options_.seed, hash_text("shuffle")), position_.epoch));
  } else {
    order_.resize(options_.size);
    std::iota(order_.begin(), order_.end(), 0);
  }
  shuffled_epoch_ = position_.epoch;
}

Sampler::Batch Sampler::next() {
  const bool is_grouped = options_.parts > 1 || options_.streams;
  const std::uint64_t end = is_grouped ? options_.size / rows() * rows() : options_.size;
  if (position_.index + options_.batch > end) position_ = {position_.epoch + 1, 0};
  shuffle();
  const Batch batch = {position_.epoch, std::span(order_).subspan(position_.index, options_.batch)};
  position_.index += options_.batch;
  return batch;
}

void Sampler::seek(Position position) {
  if (position.index > options_.size) {
    throw UserError(fmt::format("cannot go on at sample {} of a data set of {}", position.index, options_.size));
  }
  position_ = position;
}

}  // namespace neap
