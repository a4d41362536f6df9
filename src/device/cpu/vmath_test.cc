// Every function of vmath.h, in every build that this CPU can run, against libm in double precision.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/random.h"
#include "device/cpu/vmath_simd.h"

namespace neap {
namespace {

constexpr double kTolerance = 2.5e-7;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Vmath : public testing::TestWithParam<Isa> {
 protected:
  const VmathTable& table() const {
    return GetParam() == Isa::kBase ? isa_base::vmath_table()
           : GetParam() == Isa::kV3 ? isa_v3::vmath_table()
                                    : isa_v4::vmath_table();
  }
};

std::vector<Isa> runnable() {
  std::vector<Isa> all;
  for (Isa each : {Isa::kBase, Isa::kV3, Isa::kV4}) {
    if (each <= isa()) all.push_back(each);
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Isa>& info) {
  return info.param == Isa::kBase ? "base" : info.param == Isa::kV3 ? "v3" : "v4";
}

INSTANTIATE_TEST_SUITE_P(Builds, Vmath, testing::ValuesIn(runnable()), name_of);

// Bit patterns over the whole range (denormals, infinities, NaNs), evenly spaced values around the interesting part,
// and every special case.
std::vector<float> arguments() {
  std::vector<float> all = {0.0F,      -0.0F,      1.0F,      -1.0F,           kInf,     -kInf,  kNan,   -kNan,
                            0x1p-149F, -0x1p-149F, 88.0F,     88.72F,          88.73F,   89.0F,  -87.3F, -87.4F,
                            -103.9F,   -104.0F,    -106.0F,   1e30F,           0.5F,     0.625F, 4.0F,   3.92F,
                            0.99999F,  1e-20F,     0x1p-126F, 0x1p20F,         -0x1p20F, 1e10F,  355.0F, 710.0F,
                            103993.0F, 3.4e38F,    -3.4e38F,  0x1.fffffep-127F};
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 14251) {
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (int i = -150000; i <= 150000; ++i) all.push_back(static_cast<float>(i) * 7.1e-4F);
  return all;
}

bool close(float got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::abs(want) > 0x1.fffffefp127) return static_cast<double>(got) == std::copysign(HUGE_VAL, want);
  const double bound = kTolerance * std::abs(want) + 0x1p-149;  // a denormal may be off by one unit
  if (std::isinf(got))
    return std::abs(want) * (1 + kTolerance) > 0x1.fffffep127 && std::signbit(got) == std::signbit(want);
  return std::abs(static_cast<double>(got) - want) <= bound;
}

void check(VmathTable::Unary function, double (*reference)(double)) {
  const std::vector<float> src = arguments();
  std::vector<float> dst(src.size());
  function(src.data(), dst.data(), static_cast<std::int64_t>(src.size()));
  int wrong = 0;
  for (std::size_t i = 0; i < src.size() && wrong < 5; ++i) {
    const double want = reference(static_cast<double>(src[i]));
    if (close(dst[i], want)) continue;
    ++wrong;
    ADD_FAILURE() << "f(" << std::hexfloat << src[i] << ") = " << dst[i] << ", expected " << want;
  }
}

TEST_P(Vmath, Exp) { check(table().exp, std::exp); }
TEST_P(Vmath, Log) { check(table().log, std::log); }
TEST_P(Vmath, Tanh) { check(table().tanh, std::tanh); }
TEST_P(Vmath, Erf) { check(table().erf, std::erf); }
TEST_P(Vmath, Sin) { check(table().sin, std::sin); }
TEST_P(Vmath, Cos) { check(table().cos, std::cos); }
TEST_P(Vmath, Sigmoid) {
  check(table().sigmoid, [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); });
}
TEST_P(Vmath, Rsqrt) {
  check(table().rsqrt, [](double x) { return 1 / std::sqrt(x); });
}

TEST_P(Vmath, OddFunctionsKeepTheSignOfZero) {
  for (VmathTable::Unary function : {table().tanh, table().erf, table().sin}) {
    const float src[2] = {-0.0F, 0.0F};
    float dst[2];
    function(src, dst, 2);
    EXPECT_TRUE(std::signbit(dst[0]));
    EXPECT_FALSE(std::signbit(dst[1]));
  }
}

// A lane's result does not depend on its position, and nothing beyond the end is written.
TEST_P(Vmath, TailsMatchWholeVectors) {
  const std::vector<float> src = {-3.5F, -2.0F, -1.2F, -0.3F, 0.1F, 0.4F, 0.9F,  1.7F,  2.4F,  3.3F,
                                  4.1F,  5.2F,  6.3F,  7.5F,  8.8F, 9.9F, 10.0F, 11.0F, 12.0F, 13.0F};
  const VmathTable& t = table();
  for (VmathTable::Unary function : {t.exp, t.log, t.tanh, t.sigmoid, t.erf, t.rsqrt, t.sin, t.cos}) {
    std::vector<float> alone(src.size());
    for (std::size_t i = 0; i < src.size(); ++i) function(&src[i], &alone[i], 1);
    for (std::size_t n = 0; n <= src.size(); ++n) {
      std::vector<float> dst(src.size() + 1, -77.0F);
      function(src.data(), dst.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < dst.size(); ++i) {
        const float want = i < n ? alone[i] : -77.0F;
        EXPECT_EQ(std::bit_cast<std::uint32_t>(dst[i]), std::bit_cast<std::uint32_t>(want)) << "n " << n << " i " << i;
      }
    }
  }
}

TEST_P(Vmath, SumAndMax) {
  for (int n = 1; n < 70; ++n) {
    std::vector<float> src;
    float best = -kInf;
    for (int i = 0; i < n; ++i) {
      src.push_back(static_cast<float>((i * 37) % 41) - 200.0F);
      best = std::max(best, src.back());
    }
    double sum = 0;
    for (float x : src) sum += static_cast<double>(x);
    EXPECT_EQ(static_cast<double>(table().sum(src.data(), n)), sum);  // small integers: exact in any order
    EXPECT_EQ(table().max(src.data(), n), best);
  }
}

TEST_P(Vmath, SumAddsLanesByHalves) {
  const int lanes = table().lanes;
  std::vector<float> src;
  RandomStream random(7);
  for (int i = 0; i < lanes; ++i) src.push_back(static_cast<float>(random.normal()));
  std::vector<float> partial = src;
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) partial[i] += partial[i + half];
  }
  EXPECT_EQ(table().sum(src.data(), lanes), partial[0]);
}

TEST_P(Vmath, FmaRoundsOnceWhereTheHardwareCan) {
  const float a = 1.0F + 0x1p-23F;
  const float b = 1.0F - 0x1p-23F;
  const float c = -1.0F;
  float dst = 0;
  table().fma(&a, &b, &c, &dst, 1);
  EXPECT_EQ(dst, GetParam() == Isa::kBase ? a * b + c : std::fma(a, b, c));
}

TEST_P(Vmath, NearestRoundsTiesToEven) {
  std::vector<float> src;
  for (int i = -400; i <= 400; ++i) src.push_back(static_cast<float>(i) * 0.25F);
  std::vector<std::int32_t> dst(src.size());
  table().nearest(src.data(), dst.data(), static_cast<std::int64_t>(src.size()));
  for (std::size_t i = 0; i < src.size(); ++i) EXPECT_EQ(dst[i], std::lrint(src[i])) << src[i];
}

// The value of a small float format: `digits` explicit mantissa bits, exponent bias `bias`.
double small_float(std::uint32_t h, int digits, int bias) {
  const int exponent = static_cast<int>((h & 0x7FFFU) >> digits);
  const int largest = (1 << (15 - digits)) - 1;
  const double fraction = static_cast<double>(h & ((1U << digits) - 1)) / (1 << digits);
  double value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  if (exponent == largest) value = fraction == 0 ? HUGE_VAL : NAN;
  return (h & 0x8000U) != 0 ? -value : value;
}

void check_decoding(void (*decode)(const std::uint16_t*, float*, std::int64_t), int digits, int bias) {
  std::vector<std::uint16_t> src(1 << 16);
  for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::uint16_t>(i);
  std::vector<float> dst(src.size());
  decode(src.data(), dst.data(), static_cast<std::int64_t>(src.size()));
  for (std::size_t i = 0; i < src.size(); ++i) {
    const double want = small_float(src[i], digits, bias);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(dst[i])) << i;
    } else {
      ASSERT_EQ(static_cast<double>(dst[i]), want) << i;
      ASSERT_EQ(std::signbit(dst[i]), std::signbit(want)) << i;
    }
  }
}

TEST_P(Vmath, DecodesEveryBf16) { check_decoding(table().from_bf16, 7, 127); }
TEST_P(Vmath, DecodesEveryF16) { check_decoding(table().from_f16, 10, 15); }

// Around every representable value: itself, the tie above it, and the floats beside that tie.
void check_encoding(void (*encode)(const float*, std::uint16_t*, std::int64_t), int digits, int bias) {
  const auto infinity = static_cast<std::uint16_t>(0x7FFFU >> digits << digits);
  std::vector<float> src;
  std::vector<std::uint16_t> want;
  for (std::uint32_t sign : {0U, 0x8000U}) {
    for (std::uint32_t h = 0; h < infinity; ++h) {
      const double low = small_float(h, digits, bias);
      // What follows the largest finite value is where infinity's exponent would put it.
      const double high =
          h + 1 == infinity ? std::ldexp(1.0, (1 << (15 - digits)) - 1 - bias) : small_float(h + 1, digits, bias);
      const auto tie = static_cast<float>((low + high) / 2);
      const float cases[4] = {static_cast<float>(low), tie, std::nextafter(tie, 0.0F), std::nextafter(tie, kInf)};
      const std::uint32_t expected[4] = {h, h + (h & 1U), h, h + 1};
      for (int i = 0; i < 4; ++i) {
        src.push_back(sign == 0 ? cases[i] : -cases[i]);
        want.push_back(static_cast<std::uint16_t>(expected[i] | sign));
      }
    }
  }
  for (float x : {kInf, 3.4028235e38F}) {
    src.push_back(x);
    want.push_back(infinity);
  }
  std::vector<std::uint16_t> dst(src.size());
  encode(src.data(), dst.data(), static_cast<std::int64_t>(src.size()));
  for (std::size_t i = 0; i < src.size(); ++i) ASSERT_EQ(dst[i], want[i]) << std::hexfloat << src[i];
}

TEST_P(Vmath, RoundsToBf16) { check_encoding(table().to_bf16, 7, 127); }
TEST_P(Vmath, RoundsToF16) { check_encoding(table().to_f16, 10, 15); }

TEST_P(Vmath, HalfTypesKeepNan) {
  for (std::uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0x7FC00000U, 0xFF800001U, 0xFFFFFFFFU}) {
    const auto nan = std::bit_cast<float>(bits);
    std::uint16_t half[2];
    table().to_bf16(&nan, &half[0], 1);
    table().to_f16(&nan, &half[1], 1);
    EXPECT_TRUE(std::isnan(small_float(half[0], 7, 127))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(small_float(half[1], 10, 15))) << std::hex << bits;
  }
}

TEST_P(Vmath, HalfTypesTails) {
  for (int n = 0; n <= 20; ++n) {
    const std::vector<float> src(20, 1.5F);
    std::vector<std::uint16_t> half(21, 7);
    table().to_bf16(src.data(), half.data(), n);
    for (int i = 0; i < 21; ++i) EXPECT_EQ(half[i], i < n ? 0x3FC0 : 7);
    std::vector<float> back(21, -1.0F);
    const std::vector<std::uint16_t> ones(20, 0x3E00);
    table().from_f16(ones.data(), back.data(), n);
    for (int i = 0; i < 21; ++i) EXPECT_EQ(back[i], i < n ? 1.5F : -1.0F);
  }
}

TEST_P(Vmath, PhiloxMatchesTheScalarOne) {
  constexpr std::int64_t kBlocks = 3;
  const int lanes = table().lanes;
  for (std::uint64_t key : {0ULL, 0x123456789ABCDEFULL, ~0ULL}) {
    // The third and fourth cross the border of the low word, and of the counter.
    for (std::uint64_t index : {0ULL, 5ULL, 0xFFFFFFFAULL, ~0ULL - 6}) {
      for (std::uint64_t stream : {0ULL, 0xFEDCBA9876543210ULL}) {
        std::vector<std::uint32_t> words(4 * lanes * kBlocks);
        std::vector<float> units(words.size());
        table().philox(key, index, stream, words.data(), units.data(), kBlocks);
        for (std::size_t i = 0; i < words.size(); ++i) {
          const std::uint32_t want = Philox{key}(index + i / 4, stream)[i % 4];
          ASSERT_EQ(words[i], want) << "index " << index << " word " << i;
          ASSERT_EQ(units[i], unit_float(want));
        }
      }
    }
  }
}

TEST(VmathTableTest, DispatchFollowsTheIsa) {
  EXPECT_EQ(vmath_table().lanes, isa() == Isa::kV4 ? 16 : isa() == Isa::kV3 ? 8 : 4);
}

}  // namespace
}  // namespace neap
