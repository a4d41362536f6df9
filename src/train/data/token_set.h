// Windows of a stream of tokens, or its paragraphs: `tokens` are T in a row, `targets` those that follow each of them.
#pragma once

#include <string>

#include "train/data/array.h"
#include "train/data/dataset.h"
#include "train/data/sequences.h"

namespace neap {

class TokenSet final : public Dataset {
 public:
  // `stream` is u8 or u16 [N]. Window i starts at token i*T, so an epoch sees every token once. The validation part is
  // the end of the stream. A model's input that looks like a mask (integers without a bound) gets 1 everywhere: a
  // window has no gaps. With options.varying samples are what cut_stream() gives instead, and masks 0 behind their end.
  // UserError when a part is too short for a window, a token is outside the vocabulary, or the model takes what no text
  // has.
  TokenSet(Array stream, const DatasetOptions& options, const std::string& label);
  std::int64_t length(std::uint64_t index, std::int64_t most) const override;
  void fill(std::span<const std::uint64_t> indices, std::size_t field, std::byte* dst,
            const Augment& augment) const override;

 private:
  enum class Kind : std::uint8_t { kTokens, kTargets, kOnes };
  void take_wanted(const DatasetOptions& options, const std::string& label);

  std::vector<Kind> kinds_;  // one a field
  Array stream_;
  std::uint64_t begin_ = 0;  // of this part
  std::uint64_t length_ = 0;
  std::vector<TokenSequence> sequences_;  // empty: windows
};

}  // namespace neap
