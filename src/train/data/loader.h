// Prepares the next batches in the background while the device works on this one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/sampler.h"
#include "train/data/sequences.h"

namespace neap {

// The batches are those of the sampler, in its order: what they hold does not depend on the thread.
class Loader {
 public:
  struct Batch {
    std::uint64_t epoch = 0;
    std::vector<std::uint64_t> indices;
    Sampler::Position next;                          // where the sampler stands after this batch: for checkpoints
    std::int64_t length = 0;                         // time steps of its sequences; 0: those of the fields
    std::int64_t tokens = 0;                         // of them without padding
    std::vector<std::span<const std::byte>> fields;  // [batch, sample_shape...] in the order of the data set's fields
  };

  // `augment.epoch` is set from the sampler. The thread starts at once and stays at most `ring` batches ahead. The
  // first batch has the number `first` in the limits of `form`, whose longest must fit every field. `threads`: that
  // make a batch together, where the cores have nothing better to do.
  Loader(std::shared_ptr<const Dataset> data, Sampler sampler, const Augment& augment = {}, std::size_t ring = 2,
         BatchOptions form = {}, std::uint64_t first = 0, std::size_t threads = 1);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Waits for the next batch, which stays valid until release() or the next call. What the thread threw is thrown here,
  // after all batches before it.
  const Batch& next();
  // Gives the buffers of the current batch back early, for instance once they are copied to the device.
  void release();
  // Of all buffers together.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Slot;
  void run();
  void prepare(Slot& slot);
  void fill(const Batch& batch, std::size_t field, const Augment& augment, std::byte* dst) const;
  void cut(Slot& slot, std::int64_t most) const;
  std::uint64_t largest() const;

  std::shared_ptr<const Dataset> data_;
  Sampler sampler_;
  Augment augment_;
  BatchOptions form_;
  std::uint64_t first_;
  std::size_t threads_;
  std::size_t bytes_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t prepared_ = 0;  // batches so far; batch i is in slot i % ring
  std::uint64_t released_ = 0;
  std::exception_ptr error_;  // what ended the thread
  bool stop_ = false;
  bool held_ = false;  // the consumer has batch `released_`
  std::thread thread_;
};

}  // namespace neap
