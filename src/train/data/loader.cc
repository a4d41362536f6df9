#include "train/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <future>
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
               BatchOptions form, std::uint64_t first, std::size_t threads)
    : data_(std::move(data)),
      sampler_(std::move(sampler)),
      augment_(augment),
      form_(std::move(form)),
      first_(first),
      threads_(threads) {
  require(ring > 0 && threads > 0, "a loader needs a buffer and a thread");
  for (std::size_t i = 0; i < ring; ++i) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    for (const Field& field : data_->fields()) {
      const std::size_t bytes = batch_bytes(field, largest());
      const auto room = static_cast<std::size_t>(align_up(static_cast<std::int64_t>(bytes)));
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, room));
      if (memory == nullptr) too_large(field, largest());
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

std::uint64_t Loader::largest() const {
  std::uint64_t out = sampler_.batch();
  for (const BatchOptions::Limit& limit : form_.limits) out = std::max(out, limit.samples);
  return out;
}

// Called by the thread, which alone changes `prepared_`: the number of this batch.
void Loader::prepare(Slot& slot) {
  const BatchOptions::Limit limit = form_.limit_at(first_ + prepared_);
  const Sampler::Batch batch = sampler_.next(limit.samples > 0 ? limit.samples : sampler_.batch());
  slot.batch.epoch = batch.epoch;
  slot.batch.indices.assign(batch.indices.begin(), batch.indices.end());
  slot.batch.next = sampler_.position();
  Augment augment = augment_;
  augment.epoch = batch.epoch;
  for (std::size_t field = 0; field < slot.buffers.size(); ++field) {
    std::byte* const data = slot.buffers[field].get();
    fill(slot.batch, field, augment, data);
    const auto bytes = static_cast<std::size_t>(sample_bytes(data_->fields()[field]));
    slot.batch.fields[field] = {data, slot.batch.indices.size() * bytes};
  }
  if (form_.longest > 0) cut(slot, limit.steps);
}

// Every sample is a function of its number: who makes it does not matter.
void Loader::fill(const Batch& batch, std::size_t field, const Augment& augment, std::byte* dst) const {
  constexpr std::size_t kWorthAThread = 256 * 1024;  // bytes
  const auto sample = static_cast<std::size_t>(sample_bytes(data_->fields()[field]));
  const std::span<const std::uint64_t> all = batch.indices;
  const std::size_t parts = std::clamp<std::size_t>(all.size() * sample / kWorthAThread, 1, threads_);
  const std::size_t each = (all.size() + parts - 1) / parts;
  std::vector<std::future<void>> others;
  for (std::size_t at = each; at < all.size(); at += each) {
    const auto part = all.subspan(at, std::min(each, all.size() - at));
    const auto work = [this, part, field, &augment, to = dst + at * sample] { data_->fill(part, field, to, augment); };
    try {
      others.push_back(std::async(std::launch::async, work));
    } catch (const std::system_error&) {  // no thread to be had
      work();
    }
  }
  data_->fill(all.first(std::min(each, all.size())), field, dst, augment);
  for (std::future<void>& other : others) other.get();
}

void Loader::cut(Slot& slot, std::int64_t most) const {
  std::vector<std::int64_t> lengths;
  for (const std::uint64_t index : slot.batch.indices) lengths.push_back(data_->length(index, most));
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  slot.batch.length = form_.varying ? padded_length(longest, most) : most;
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
