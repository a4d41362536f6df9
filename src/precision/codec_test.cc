// Form: sizes, flags, the same bits everywhere. Errors are codec_error_test.cc's.
#include "precision/codec.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cstring>

#include "neap/error.h"
#include "precision/codec_simd.h"
#include "precision/codec_testing.h"

namespace neap::precision {
namespace {

constexpr CodecKey kKey = {.seed = 11, .step = 5, .tensor = 7};
const std::vector<std::int64_t> kSizes = {1,   2,   3,   7,   8,   15,   16,   17,   31,   33,    63,
                                          255, 256, 257, 511, 768, 1000, 4095, 4096, 4097, 16384, 20003};

std::vector<std::pair<const char*, const CodecTable*>> builds() {
  std::vector<std::pair<const char*, const CodecTable*>> all = {{"base", &isa_base::codec_table()}};
  if (isa() >= Isa::kV3) all.emplace_back("v3", &isa_v3::codec_table());
  if (isa() >= Isa::kV4) all.emplace_back("v4", &isa_v4::codec_table());
  return all;
}

std::uint8_t* raw(Bytes& b) { return reinterpret_cast<std::uint8_t*>(b.data()); }

Encoded encoded_by(const CodecTable& table, Level level, const Floats& x, const CodecKey& key) {
  const auto n = static_cast<std::int64_t>(x.size());
  Encoded e = room_for(level, n);
  if (is_grouped(level)) {
    const std::size_t place = index_of(level) - index_of(Level::kInt8);
    const auto run = key.rounding == Rounding::kNearest ? table.nearest[place] : table.stochastic[place];
    e.flags = run(x.data(), n, philox_key(key), raw(e.payload), raw(e.history));
  } else {
    e.flags = (level == Level::kFp16 ? table.fp16 : table.bf16)(x.data(), n, raw(e.payload));
  }
  return e;
}

// Bits, so that NaN equals itself and -0 is not 0.
std::vector<std::uint32_t> bits_of(const Floats& x) {
  std::vector<std::uint32_t> bits(x.size());
  std::memcpy(bits.data(), x.data(), x.size() * 4);
  return bits;
}

void check_builds(Level level, const Floats& x, const CodecKey& key) {
  const auto n = static_cast<std::int64_t>(x.size());
  Encoded want = room_for(level, n);
  want.flags = encode_ref(level, x.data(), n, key, want.payload.data(), want.history.data());
  Floats values(x.size());
  decode_ref(level, want.payload.data(), want.history.data(), n, values.data());
  for (const auto& [name, table] : builds()) {
    SCOPED_TRACE(name);
    Encoded got = encoded_by(*table, level, x, key);
    ASSERT_EQ(got.flags, want.flags);
    ASSERT_EQ(got.payload, want.payload);
    ASSERT_EQ(got.history, want.history);
    Floats y(x.size(), 99.0F);
    table->decode[index_of(level)](raw(got.payload), raw(got.history), n, y.data());
    ASSERT_EQ(bits_of(y), bits_of(values));
  }
}

TEST(Codec, EveryBuildAgreesWithTheReferenceToTheBit) {
  for (const std::int64_t n : kSizes) {
    for (const auto& [name, x] : hostile_tensors(n, static_cast<std::uint64_t>(n))) {
      for (const Level level : kAllLevels) {
        if (level == Level::kFp32) continue;
        SCOPED_TRACE(name + ", " + std::string(precision::name(level)) + ", " + std::to_string(n));
        check_builds(level, x, kKey);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Codec, NearestAgreesToo) {
  CodecKey key = kKey;
  key.rounding = Rounding::kNearest;
  for (const auto& [name, x] : hostile_tensors(1000, 3)) {
    for (const Level level : {Level::kInt8, Level::kInt4, Level::kBit}) check_builds(level, x, key);
  }
}

TEST(Codec, Fp32IsACopy) {
  for (const std::int64_t n : {1, 1000, 100003}) {
    const Floats x = wild_tensor(n, 3);
    const Encoded e = encoded(Level::kFp32, x, kKey);
    EXPECT_EQ(e.flags, 0U);
    EXPECT_EQ(bits_of(decoded(Level::kFp32, e, n)), bits_of(x));
  }
}

TEST(Codec, EveryHalfSurvives) {
  for (const Level level : {Level::kFp16, Level::kBf16}) {
    Encoded e = room_for(level, 65536);
    for (std::uint32_t h = 0; h < 65536; ++h) {
      const auto half = static_cast<std::uint16_t>(h);
      std::memcpy(e.payload.data() + std::size_t{2} * h, &half, 2);
    }
    const Floats x = decoded(level, e, 65536);
    const Encoded again = encoded(level, x, kKey);
    for (std::size_t h = 0; h < 65536; ++h) {
      std::uint16_t got = 0;
      std::memcpy(&got, again.payload.data() + 2 * h, 2);
      if (std::isnan(x[h])) continue;
      ASSERT_EQ(got, h) << name(level);
    }
  }
}

TEST(Codec, TheNumberOfThreadsChangesNothing) {
  const int before = omp_get_max_threads();
  const Floats x = normal_tensor(100003, 1);
  for (const Level level : kAllLevels) {
    omp_set_num_threads(1);
    const Encoded want = encoded(level, x, kKey);
    const Floats values = decoded(level, want, 100003);
    for (const int threads : {2, 3, 8}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(encoded(level, x, kKey), want) << name(level);
      EXPECT_EQ(decoded(level, want, 100003), values) << name(level);
    }
  }
  omp_set_num_threads(before);
}

TEST(Codec, SeedStepAndTensorEachChangeTheRounding) {
  const Floats x = normal_tensor(5000, 2);
  for (const Level level : {Level::kInt8, Level::kInt4, Level::kBit}) {
    const Encoded want = encoded(level, x, kKey);
    EXPECT_EQ(encoded(level, x, kKey), want);
    EXPECT_NE(encoded(level, x, {12, 5, 7}).payload, want.payload);
    EXPECT_NE(encoded(level, x, {11, 6, 7}).payload, want.payload);
    EXPECT_NE(encoded(level, x, {11, 5, 8}).payload, want.payload);
    EXPECT_EQ(encoded(level, x, {12, 6, 8}).history, want.history);
  }
}

// Beyond its bytes nothing is written, and the form in one block is the form in two, one behind the other.
TEST(Codec, OneBlockHoldsBoth) {
  for (const std::int64_t n : kSizes) {
    const Floats x = normal_tensor(n, 4);
    for (const Level level : kAllLevels) {
      Bytes block(static_cast<std::size_t>(encoded_bytes(level, n)) + 64, std::byte{0x5A});
      ASSERT_EQ(encode(level, x.data(), n, kKey, block.data()) & ~kInexact, 0U);
      for (std::size_t i = block.size() - 64; i < block.size(); ++i) ASSERT_EQ(block[i], std::byte{0x5A});
      Floats y(x.size());
      decode(level, block.data(), n, y.data());
      ASSERT_EQ(y, round_trip(level, x, kKey));
      const Encoded apart = encoded(level, x, kKey);
      ASSERT_TRUE(std::equal(apart.payload.begin(), apart.payload.end(), block.begin()));
    }
  }
}

TEST(Codec, AnEmptyTensorTakesNothing) {
  for (const Level level : kAllLevels) {
    EXPECT_EQ(encoded_bytes(level, 0), 0);
    EXPECT_EQ(history_bytes(level, 0), 0);
    std::byte nothing{0x5A};
    EXPECT_EQ(encode(level, nullptr, 0, kKey, &nothing, &nothing), 0U);
    decode(level, &nothing, &nothing, 0, nullptr);
    EXPECT_EQ(nothing, std::byte{0x5A});
  }
}

TEST(Codec, BytesOfEachLevel) {
  EXPECT_EQ(encoded_bytes(Level::kFp32, 1000), 4000);
  EXPECT_EQ(encoded_bytes(Level::kFp16, 1000), 2000);
  EXPECT_EQ(encoded_bytes(Level::kBf16, 1001), 2002);
  EXPECT_EQ(encoded_bytes(Level::kInt8, 1000), 1000 + 4 * 8);
  EXPECT_EQ(encoded_bytes(Level::kInt8, 1001), 1008 + 4 * 8);
  EXPECT_EQ(encoded_bytes(Level::kInt4, 1024), 512 + 4 * 8);
  EXPECT_EQ(encoded_bytes(Level::kInt4, 1025), 528 + 5 * 8);
  EXPECT_EQ(encoded_bytes(Level::kBit, 1024), 128 + 4 * 8);
  EXPECT_EQ(payload_bytes(Level::kBit, 9), 2);
  EXPECT_EQ(history_bytes(Level::kInt4, 257), 16);
  EXPECT_EQ(history_bytes(Level::kFp16, 257), 0);
}

unsigned flags_of(Level level, const Floats& x) { return encoded(level, x, kKey).flags; }

TEST(Codec, ReportsWhatMustStayExact) {
  Floats x = normal_tensor(1000, 9);
  for (const Level level : {Level::kFp16, Level::kBf16, Level::kInt8, Level::kInt4}) {
    SCOPED_TRACE(name(level));
    EXPECT_EQ(flags_of(level, x), 0U);
    for (const std::size_t at : {0U, 17U, 255U, 256U, 999U}) {  // the last is in a part of a group
      Floats bad = x;
      bad[at] = std::nanf("");
      EXPECT_EQ(flags_of(level, bad), kNan);
      bad[at] = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(flags_of(level, bad), kInfinite);
      bad[at] = 3.4e38F;
      EXPECT_EQ(flags_of(level, bad), kOverflow);
    }
    EXPECT_EQ(flags_of(level, Floats(300, 0.0F)), 0U);
    EXPECT_EQ(flags_of(level, Floats(300, 1.5F)), 0U);
    Floats denormal(300, 1e-40F);
    denormal[5] = 2e-40F;
    EXPECT_EQ(flags_of(level, denormal), kUnderflow);
  }
  EXPECT_TRUE(must_stay_exact(kNan));
  EXPECT_TRUE(must_stay_exact(kInfinite | kInexact));
  EXPECT_TRUE(must_stay_exact(kOverflow));
  EXPECT_TRUE(must_stay_exact(kUnderflow));
  EXPECT_FALSE(must_stay_exact(kInexact));
  EXPECT_EQ(flags_of(Level::kFp16, Floats(10, 65520.0F)), kOverflow);
  EXPECT_EQ(flags_of(Level::kFp16, Floats(10, 65519.0F)), 0U);
}

// A group that was reported harms none of the others.
TEST(Codec, BadGroupsStayAlone) {
  Floats x = normal_tensor(1024, 9);
  const Floats want = round_trip(Level::kInt8, x, kKey);
  x[300] = std::nanf("");
  const Floats got = round_trip(Level::kInt8, x, kKey);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 256 == 1) {
      ASSERT_EQ(got[i], 0);
    } else {
      ASSERT_EQ(got[i], want[i]);
    }
  }
}

TEST(Level, Parses) {
  EXPECT_EQ(parse_levels("int4,fp32,int4"), (std::vector<Level>{Level::kFp32, Level::kInt4}));
  for (const Level level : kAllLevels) EXPECT_EQ(parse_level(name(level)), level);
  for (const char* bad : {"", "int3", "fp32,", "FP32", ",", "fp32 ,int8"}) EXPECT_THROW(parse_levels(bad), UserError);
}

}  // namespace
}  // namespace neap::precision
