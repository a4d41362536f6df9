#include "train/data/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/file_testing.h"
#include "train/data/loader.h"

namespace neap {
namespace {

Array text(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return {.dtype = DType::kU8,
          .shape = {static_cast<std::int64_t>(bytes.size())},
          .bytes = std::as_bytes(std::span(owner->data(), owner->size())),
          .owner = owner};
}

std::vector<std::string> pieces(const std::string& bytes, std::uint64_t longest) {
  const Array stream = text(bytes);
  std::vector<std::string> out;
  for (const TokenSequence& s : cut_stream(stream, 0, bytes.size(), longest)) {
    out.push_back(bytes.substr(s.begin, s.steps + 1));
  }
  return out;
}

using Strings = std::vector<std::string>;

TEST(Sequences, ALineEach) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "ab\n";
  EXPECT_EQ(pieces(lines + "cde", 8).size(), 31U);
  EXPECT_EQ(pieces("ab\ncde", 8), (Strings{"ab\n", "cde"}));
  EXPECT_EQ(pieces("abcdefg\n", 3), (Strings{"abcd", "defg", "g\n"}));
}

TEST(Sequences, AParagraphEachWhereThereAreSome) {
  EXPECT_EQ(pieces("  1 one\ntwo\n  2 three\n\nfour", 99), (Strings{"  1 one\ntwo\n", "  2 three\n", "\nfour"}));
}

TEST(Sequences, EveryTokenIsATargetOnce) {
  std::string bytes;
  for (int i = 0; i < 500; ++i) bytes += static_cast<char>(i % 37 == 0 ? '\n' : 'a' + i % 26);
  std::size_t targets = 0;
  for (const std::string& piece : pieces(bytes, 16)) targets += piece.size() - 1;
  const auto lines = static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  EXPECT_EQ(targets, bytes.size() - lines - 1);  // but for the first of each line
}

TEST(Sequences, LengthsAreRoundedUpToFewDifferentOnes) {
  EXPECT_EQ(padded_length(1, 100), 16);
  EXPECT_EQ(padded_length(16, 100), 16);
  EXPECT_EQ(padded_length(17, 100), 32);
  EXPECT_EQ(padded_length(99, 100), 100);
}

TEST(Sequences, BatchesArePaddedToTheirLongestOnly) {
  const testing::TempDir dir;
  const std::string path = dir.file("a.txt", "abc\ndefghijklmnopqrstuvwxyz\nab\nabcdefghi\nxy\nabcdefghijklmn\n");
  const auto data = open_dataset(path, {.length = 64, .varying = true});
  ASSERT_EQ(data->size(), 6U);
  Loader loader(data, Sampler({.size = 6, .batch = 2, .shuffle = false}), {}, 2, {.longest = 64, .varying = true});
  const Loader::Batch& batch = loader.next();
  EXPECT_EQ(batch.length, 32);
  EXPECT_EQ(batch.tokens, 3 + 23);
  ASSERT_EQ(batch.fields[0].size(), 2U * 32 * 4);
  std::vector<std::int32_t> tokens(64);
  std::vector<std::int32_t> targets(64);
  std::memcpy(tokens.data(), batch.fields[data->field("tokens")].data(), 256);
  std::memcpy(targets.data(), batch.fields[data->field("targets")].data(), 256);
  EXPECT_EQ(tokens[2], 'c');
  EXPECT_EQ(targets[2], '\n');
  for (int i = 3; i < 32; ++i) EXPECT_TRUE(tokens[i] == 0 && targets[i] == kIgnoredTarget) << i;
  EXPECT_EQ(tokens[32], 'd');
  EXPECT_EQ(targets[32 + 22], '\n');
  EXPECT_EQ(targets[32 + 23], kIgnoredTarget);
  EXPECT_EQ(loader.next().length, 16);
}

TEST(Sequences, LimitsHoldFromTheirBatchOn) {
  const auto data = open_dataset(
      "synthetic",
      {.vocab = 16, .wanted = {{"tokens", DType::kI32, {64}, false, 16}, {"targets", DType::kI32, {64}, false, 16}}});
  const BatchOptions options{.longest = 64, .limits = {{2, 20}, {3, 64}}};
  Loader loader(data, Sampler({.size = data->size(), .batch = 2}), {}, 2, options, 1);
  EXPECT_EQ(loader.next().length, 64);  // batch 1
  EXPECT_EQ(loader.next().length, 20);
  EXPECT_EQ(loader.next().length, 64);
}

// Skewed: most are short, few are long; the same for the same seed.
TEST(Sequences, MadeUpLengthsAreSkewed) {
  const auto data = open_dataset("synthetic", {.vocab = 16, .varying = true});
  std::vector<std::int64_t> lengths;
  for (std::uint64_t i = 0; i < 2000; ++i) lengths.push_back(data->length(i, 256));
  std::sort(lengths.begin(), lengths.end());
  EXPECT_NEAR(static_cast<double>(lengths[1000]), 51, 5);
  EXPECT_GT(lengths[1980], 150);
  EXPECT_LE(lengths.back(), 256);
  EXPECT_GE(lengths.front(), 1);
  const double mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) / 2000;
  EXPECT_GT(mean, static_cast<double>(lengths[1000]));
}

}  // namespace
}  // namespace neap
