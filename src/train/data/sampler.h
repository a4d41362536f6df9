// The order in which samples are seen: a function of (seed, epoch), resumable at any batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace neap {

// 0 .. size-1 shuffled (Fisher and Yates) by counter-based random numbers of this key.
std::vector<std::uint64_t> permutation(std::uint64_t size, std::uint64_t key);

struct SamplerOptions {
  std::uint64_t size = 0;   // of the data set
  std::uint64_t batch = 1;  // UserError when larger than the data set
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::uint64_t parts = 1;  // batches that belong together: an epoch has no incomplete group of them
  // Row r of a group of batches reads on where row r of the group before has ended: each row has its own stretch of the
  // data. Instead of shuffling.
  bool streams = false;
};

class Sampler {
 public:
  struct Position {
    std::uint64_t epoch = 0;
    std::uint64_t index = 0;  // samples of this epoch that were handed out
    std::uint64_t part = 0;   // batches of a group that has begun
    friend bool operator==(const Position&, const Position&) = default;
  };
  struct Batch {
    std::uint64_t epoch = 0;
    std::span<const std::uint64_t> indices;  // valid until the next call
  };

  explicit Sampler(const SamplerOptions& options);

  // The next batch; an incomplete one at the end of an epoch is left out.
  Batch next() { return next(options_.batch); }
  // The same with another number of samples, for all parts of a group alike; without streams.
  Batch next(std::uint64_t batch);
  // As if it had been handed out.
  void skip(std::uint64_t batch);
  std::uint64_t batch() const { return options_.batch; }
  std::uint64_t batches_per_epoch() const { return options_.size / rows() * options_.parts; }
  // Of the batch that next() will give. A sampler of the same options goes on from there.
  Position position() const { return position_; }
  void seek(Position position);  // UserError when it lies outside the data set

 private:
  void shuffle();
  void line_up();
  void begin(std::uint64_t batch);
  void end(std::uint64_t batch);
  std::uint64_t rows() const { return options_.batch * options_.parts; }
  SamplerOptions options_;
  Position position_;
  std::uint64_t shuffled_epoch_ = 0;  // whose order is in order_, once there is one
  std::vector<std::uint64_t> order_;
};

}  // namespace neap
