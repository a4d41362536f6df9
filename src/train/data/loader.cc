#include "train/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/bytes.h"
#include "core/file.h"
#include "neap/error.h"
#include "train/data/array.h"

namespace neap {
namespace {

[[noreturn]] void too_large(const Field& field, std::uint64_t batch) {
  throw UserError(fmt::format("a batch of {} samples of '{}' {} takes more memory than there is", batch,
                              printable(field.name), field.sample_shape.text()));
}

std::size_t batch_bytes(const Field& field, std::uint64_t batch) {
  std::int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(sample_bytes(field), batch, &bytes);
  if (overflow || static_cast<std::uint64_t>(bytes) > physical_bytes()) too_large(field, batch);
  return static_cast<std::size_t>(bytes);
}

}  // namespace

struct Loader::Slot {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Batch batch;
  std::vector<std::unique_ptr<std::byte, Free>> buffers;
};

Loader::Loader(std::shared_ptr<const Dataset> data, Sampler sampler, const Augment& augment, std::size_t ring,
               SequenceOptions sequences, std::uint64_t first)
    : data_(std::move(data)),
      sampler_(std::move(sampler)),
      augment_(augment),
      sequences_(std::move(sequences)),
      first_(first) {
  require(ring > 0, "a loader needs a buffer");
  for (std::size_t i = 0; i < ring; ++i) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    for (const Field& field : data_->fields()) {
      const std::size_t bytes = batch_bytes(field, sampler_.batch());
      const auto room = static_cast<std::size_t>(align_up(static_cast<std::int64_t>(bytes)));
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, room));
      if (memory == nullptr) too_large(field, sampler_.batch());
      slot.buffers.emplace_back(memory);
      slot.batch.fields.emplace_back(memory, bytes);
      bytes_ += room;
    }
  }
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::prepare(Slot& slot) {
  const Sampler::Batch batch = sampler_.next();
  slot.batch.epoch = batch.epoch;
  slot.batch.indices.assign(batch.indices.begin(), batch.indices.end());
  slot.batch.next = sampler_.position();
  Augment augment = augment_;
  augment.epoch = batch.epoch;
  for (std::size_t field = 0; field < slot.buffers.size(); ++field) {
    data_->fill(slot.batch.indices, field, slot.buffers[field].get(), augment);
  }
  if (sequences_.longest > 0) cut(slot);
}

// Called by the thread, which alone changes `prepared_`: the number of this batch.
void Loader::cut(Slot& slot) const {
  const std::int64_t most = sequences_.limit_at(first_ + prepared_);
  std::vector<std::int64_t> lengths;
  for (const std::uint64_t index : slot.batch.indices) lengths.push_back(data_->length(index, most));
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  slot.batch.length = sequences_.varying ? padded_length(longest, most) : most;
  slot.batch.tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::size_t field = 0; field < slot.buffers.size(); ++field) {
    std::byte* const data = slot.buffers[field].get();
    cut_rows(data_->fields()[field], lengths, slot.batch.length, data);
    const std::int64_t row = byte_size(data_->fields()[field].dtype, slot.batch.length);
    slot.batch.fields[field] = {data, lengths.size() * static_cast<std::size_t>(row)};
  }
}

void Loader::run() {
  while (true) {
    std::size_t at = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || prepared_ - released_ < slots_.size(); });
      if (stop_) return;
      at = prepared_ % slots_.size();
    }
    std::exception_ptr error;
    try {
      prepare(*slots_[at]);
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    error_ = error;
    if (!error) ++prepared_;
    changed_.notify_all();
    if (error) return;
  }
}

const Loader::Batch& Loader::next() {
  release();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return prepared_ > released_ || error_; });
  if (prepared_ == released_) std::rethrow_exception(error_);
  held_ = true;
  return slots_[released_ % slots_.size()]->batch;
}

void Loader::release() {
  const std::scoped_lock lock(mutex_);
  if (!held_) return;
  held_ = false;
  ++released_;
  changed_.notify_all();
}

}  // namespace neap
