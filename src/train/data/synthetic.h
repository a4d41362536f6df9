// Data made up on the spot, a function of seed, split and index alone: for benchmarks and tests, and learnable.
#pragma once

#include "train/data/dataset.h"

namespace neap {

// A sample belongs to a class drawn uniformly. Fields, by type and shape:
//   f32            normal noise of deviation 1, plus a wave and a shift of the class: in x and y for [H,W,C], else
//   along
//                  the elements; with a bound, uniform below it
//   integer []     the class
//   integer [...]  a Markov chain over up to 256 tokens: nine times in ten the one successor of a token, else any,
//   small
//                  ones more often. `targets`, and a target that has the shape of another integer field, is the same
//                  chain moved on by one. All 1 where no bound is known: a mask.
// With options.varying, integers along time are sequences of varying length: log-normal, half of them shorter than a
// fifth of the longest, three in a thousand cut at it.
// No call of the mathematics library: the same bits on every machine. The validation and test parts are a tenth as
// long.
class SyntheticSet final : public Dataset {
 public:
  explicit SyntheticSet(const DatasetOptions& options);
  std::int64_t length(std::uint64_t index, std::int64_t most) const override;
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
            const Augment& augment) const override;

 private:
  std::uint64_t class_of(std::uint64_t sample, std::int64_t classes) const;
  void fill_floats(std::uint64_t sample, const Field& field, float* dst) const;
  void fill_tokens(std::uint64_t sample, std::size_t field, std::byte* dst) const;
  std::uint64_t first_token(std::size_t field) const;

  std::uint64_t seed_ = 0;
  bool varying_ = false;
  std::uint64_t part_key_ = 0;  // seed and split
};

}  // namespace neap
