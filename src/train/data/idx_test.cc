#include "train/data/idx.h"

#include <limits>

#include "core/file.h"
#include "core/file_testing.h"
#include "train/data/data_testing.h"

namespace neap {
namespace {

using testing::big;
using testing::expect_user_error;
using testing::gzip;
using testing::idx;
using testing::idx_header;
using testing::TempDir;
using Sizes = std::vector<std::int64_t>;

void expect_refused(std::string_view bytes, std::string_view why) {
  const TempDir dir;
  const auto path = dir.file("bad.idx", bytes);
  expect_user_error([&] { read_idx(path); }, {path.string(), why});
}

TEST(Idx, EveryTypePlainAndCompressed) {
  const TempDir dir;
  for (const bool compressed : {false, true}) {
    const auto read = [&](const std::string& bytes) {
      return read_idx(dir.file("a", compressed ? gzip(bytes) : bytes));
    };
    const Array u8 = read(idx<std::uint8_t>(0x08, {2, 3}, {0, 1, 2, 3, 4, 255}));
    EXPECT_EQ(u8.dtype, DType::kU8);
    EXPECT_EQ(u8.shape, (Sizes{2, 3}));
    EXPECT_EQ(integer_at(u8, 5), 255);
    const Array i8 = read(idx<std::int8_t>(0x09, {2}, {-5, 7}));
    EXPECT_EQ(i8.dtype, DType::kI8);
    EXPECT_EQ(integer_at(i8, 0), -5);
    const Array i16 = read(idx<std::int16_t>(0x0B, {2}, {-300, 7}));
    EXPECT_EQ(i16.dtype, DType::kI32);
    EXPECT_EQ(integer_at(i16, 0), -300);
    const Array i32 = read(idx<std::int32_t>(0x0C, {1, 1}, {-70000}));
    EXPECT_EQ(i32.dtype, DType::kI32);
    EXPECT_EQ(integer_at(i32, 0), -70000);
    const Array f32 = read(idx<float>(0x0D, {2}, {1.5F, -2.0F}));
    EXPECT_EQ(f32.dtype, DType::kF32);
    EXPECT_EQ(element<float>(f32, 1), -2.0F);
    const Array f64 = read(idx<double>(0x0E, {2}, {0.25, 1e-3}));
    EXPECT_EQ(f64.dtype, DType::kF32);
    EXPECT_EQ(element<float>(f64, 1), 1e-3F);
  }
}

TEST(Idx, BytesOfAPlainFileStayInItsMapping) {
  const TempDir dir;
  const Array array = read_idx(dir.file("a", idx<std::uint8_t>(0x08, {2}, {8, 9})));
  const auto mapped = std::static_pointer_cast<const MappedFile>(array.owner);
  EXPECT_EQ(array.bytes.data(), mapped->bytes().data() + 8);
}

TEST(Idx, GzipMembersInARow) {
  const TempDir dir;
  const std::string bytes = idx<std::uint8_t>(0x08, {4}, {1, 2, 3, 4});
  const Array array = read_idx(dir.file("a", gzip(bytes.substr(0, 9)) + gzip("") + gzip(bytes.substr(9))));
  EXPECT_EQ(integer_at(array, 3), 4);
}

TEST(Idx, RefusesWrongMagic) {
  expect_refused("", "empty");
  expect_refused("abc", "no IDX file");
  expect_refused(std::string("\0\1\x08\1\0\0\0\1x", 9), "no IDX file");
  expect_refused(std::string("\0\0\x0A\1\0\0\0\1x", 9), "element type 0x0a");
  expect_refused(std::string("\0\0\x08\0", 4), "at least one dimension");
  expect_refused(gzip("some text"), "no IDX file");
}

TEST(Idx, RefusesTooFewAndTooManyBytes) {
  const std::string good = idx<std::uint8_t>(0x08, {2, 2}, {1, 2, 3, 4});
  for (std::size_t size = 0; size < good.size(); ++size) expect_refused(good.substr(0, size), "");
  expect_refused(good.substr(0, 7), "cut short in its header");
  expect_refused(good.substr(0, 15), "cut short");
  expect_refused(good + "xy", "2 bytes more");
  expect_refused(gzip(good.substr(0, 15)), "promises 4 bytes");
  expect_refused(gzip(good + "x"), "more data");
}

TEST(Idx, RefusesDamagedGzip) {
  std::vector<std::uint8_t> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i >> 3);
  const std::string good = gzip(idx<std::uint8_t>(0x08, {5000}, values));
  expect_refused(good.substr(0, good.size() / 2), "cut short");
  expect_refused(good.substr(0, good.size() - 1), "cut short");
  expect_refused(good.substr(0, 2), "cut short");
  expect_refused(good + "garbage", "bytes follow");
  expect_refused(good + std::string("\x1f\x8b", 2), "cut short");
  std::string flipped = good;
  flipped[flipped.size() - 6] ^= 1;  // in the check sum
  expect_refused(flipped, "corrupt");
}

TEST(Idx, RefusesSizesThatOverflow) {
  const std::uint32_t huge = 0xffffffff;
  expect_refused(idx_header(0x08, {huge, huge, huge}), "too large");
  expect_refused(idx_header(0x0E, {0x80000000, 0x80000000}), "too large");
  expect_refused(idx_header(0x08, {0, huge, huge, huge}), "too large");
  expect_refused(idx_header(0x08, {huge, 0x7fffffff}), "cut short");
  expect_refused(gzip(idx_header(0x08, {huge, 0x7fffffff})), "cut short");
  expect_refused(idx_header(0x08, std::vector<std::uint32_t>(33, 1)) + "x", "33 dimensions");
}

TEST(Idx, ABombGivesNoMoreThanItsHeaderSays) {
  const std::string zeros(64 << 20, '\0');
  expect_refused(gzip(idx_header(0x08, {16}) + zeros), "more data");
}

TEST(Idx, RefusesDoublesThatNoFloatHolds) { expect_refused(idx<double>(0x0E, {2}, {1.0, 1e300}), "element 1"); }

}  // namespace
}  // namespace neap
