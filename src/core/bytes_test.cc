#include "core/bytes.h"

#include <gtest/gtest.h>

#include "neap/dtype.h"
#include "neap/error.h"

namespace neap {
namespace {

TEST(ParseBytes, Units) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("2kB"), 2000);
  EXPECT_EQ(parse_bytes("2KiB"), 2048);
  EXPECT_EQ(parse_bytes("512MiB"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("512M"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000);
  EXPECT_EQ(parse_bytes("1.5 GiB"), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("1e3"), 1000);
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* bad : {"", "x", "MiB", "-1", "1XB", "1 2", "1MiBx", "nan", "inf", "1e300", "9e18", "1mib", "0x10"}) {
    EXPECT_THROW(parse_bytes(bad), UserError) << bad;
  }
}

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(5 * kMiB), "5.0 MiB");
  EXPECT_EQ(human_bytes(5 * kGiB / 2), "2.50 GiB");
}

TEST(AlignUp, ToTheNextMultiple) {
  EXPECT_EQ(align_up(0), 0);
  EXPECT_EQ(align_up(1), 64);
  EXPECT_EQ(align_up(64), 64);
  EXPECT_EQ(align_up(65, 4096), 4096);
}

TEST(DType, NamesAndSizes) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kI8, DType::kU8,
                        DType::kU16, DType::kU64, DType::kBool, DType::kBits, DType::kF64, DType::kI16, DType::kU32}) {
    EXPECT_EQ(parse_dtype(name(t)), t);
  }
  EXPECT_FALSE(parse_dtype("f8"));
  EXPECT_EQ(byte_size(DType::kF64, 3), 24);
  EXPECT_EQ(byte_size(DType::kI16, 3), 6);
  EXPECT_EQ(byte_size(DType::kU32, 3), 12);
  EXPECT_TRUE(is_float(DType::kF64));
  EXPECT_EQ(byte_size(DType::kF32, 3), 12);
  EXPECT_EQ(byte_size(DType::kBF16, 3), 6);
  EXPECT_EQ(byte_size(DType::kU64, 3), 24);
  EXPECT_EQ(byte_size(DType::kBits, 8), 1);
  EXPECT_EQ(byte_size(DType::kBits, 9), 2);
  EXPECT_TRUE(is_float(DType::kBF16));
  EXPECT_FALSE(is_float(DType::kI8));
}

}  // namespace
}  // namespace neap
