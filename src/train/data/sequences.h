// Batches of sequences whose length changes: cut, padded and put close together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/data/array.h"
#include "train/data/dataset.h"

namespace neap {

// A graph, kernels and a plan belong to each length: so batches have few different ones.
inline constexpr std::int64_t kLengthStep = 16;
// No class: the loss does not count what has it for a target.
inline constexpr std::int64_t kIgnoredTarget = -100;

// How large the batches of a run are.
struct BatchOptions {
  std::int64_t longest = 0;  // time steps of a sample; 0: samples are no sequences, or are taken whole
  bool varying = false;      // each as long as its sample says; else all as long as they may be
  // From this batch on (the first of the run is 0) at most so many time steps and exactly so many samples; before:
  // `longest`, and as many as the sampler says.
  struct Limit {
    std::uint64_t batch = 0;
    std::int64_t steps = 0;
    std::uint64_t samples = 0;  // 0: as many as the sampler says
  };
  std::vector<Limit> limits;  // by batch, ascending

  Limit limit_at(std::uint64_t batch) const;
};

// The time steps of a batch whose longest sample has so many.
std::int64_t padded_length(std::int64_t steps, std::int64_t most);

// Integers with an axis of `longest` time steps, and nothing else.
bool is_sequence(const Field& field, std::int64_t longest);

// Time steps [from, to) of a row: 0, and no class in a target.
void pad_row(const Field& field, std::byte* row, std::int64_t from, std::int64_t to);

// From [rows, longest] to [rows, steps], each row padded behind its length.
void cut_rows(const Field& field, std::span<const std::int64_t> lengths, std::int64_t steps, std::byte* data);

// A sequence in a stream of tokens: time step i reads token begin + i and is to tell the next.
struct TokenSequence {
  std::uint64_t begin = 0;
  std::uint32_t steps = 0;
};

// Cuts [begin, end) of a stream: a text behind its paragraphs (a blank or indented line begins the next), or behind
// each line where there are none; 16-bit tokens behind GPT-2's end of text, or the line end where there is none. What
// is longer than `longest` time steps comes in pieces; what is one token alone is left out.
std::vector<TokenSequence> cut_stream(const Array& stream, std::uint64_t begin, std::uint64_t end,
                                      std::uint64_t longest);

}  // namespace neap
