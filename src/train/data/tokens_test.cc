#include "train/data/tokens.h"

#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

using testing::expect_user_error;
using testing::little;
using testing::TempDir;

TEST(Tokens, TextIsItsBytes) {
  const TempDir dir;
  const Array text = read_text(dir.file("a.txt", "h\xc3\xa9"));
  EXPECT_EQ(text.dtype, DType::kU8);
  EXPECT_EQ(text.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(integer_at(text, 1), 0xc3);
}

TEST(Tokens, NumbersOf16Bits) {
  const TempDir dir;
  const Array tokens = read_tokens(dir.file("a.bin", little<std::uint16_t>({1, 50256})));
  EXPECT_EQ(tokens.dtype, DType::kU16);
  EXPECT_EQ(tokens.shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(integer_at(tokens, 1), 50256);
}

TEST(Tokens, RefusesEmptyAndOddFiles) {
  const TempDir dir;
  expect_user_error([&] { read_text(dir.file("a.txt", "")); }, {"a.txt", "empty"});
  expect_user_error([&] { read_tokens(dir.file("a.bin", "")); }, {"a.bin", "empty"});
  expect_user_error([&] { read_tokens(dir.file("a.bin", "123")); }, {"a.bin", "3 bytes"});
}

}  // namespace
}  // namespace neap
