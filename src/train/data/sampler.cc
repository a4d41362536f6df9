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

// An epoch has no room for a part of a group.
void Sampler::begin(std::uint64_t batch) {
  require(batch > 0 && batch * options_.parts <= options_.size, "an epoch has a batch");
  require(!options_.streams || batch == options_.batch, "streams stay as many as they are");
  const bool is_over = position_.part == 0 && position_.index + batch * options_.parts > options_.size;
  if (is_over) position_ = {position_.epoch + 1, 0, 0};
}

void Sampler::end(std::uint64_t batch) {
  position_.index += batch;
  position_.part = (position_.part + 1) % options_.parts;
}

Sampler::Batch Sampler::next(std::uint64_t batch) {
  begin(batch);
  shuffle();
  const Batch out = {position_.epoch, std::span(order_).subspan(position_.index, batch)};
  end(batch);
  return out;
}

void Sampler::skip(std::uint64_t batch) {
  begin(batch);
  end(batch);
}

void Sampler::seek(Position position) {
  if (position.index > options_.size) {
    throw UserError(fmt::format("cannot go on at sample {} of a data set of {}", position.index, options_.size));
  }
  position_ = position;
}

}  // namespace neap
