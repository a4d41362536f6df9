// Products of bf16 against sums in double of the rounded operands, and to the bit against each other.
#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <vector>

#include "core/random.h"
#include "device/cpu/bf16.h"
#include "device/cpu/gemm.h"
#include "device/cpu/vmath_simd.h"

namespace neap {
namespace {

float rounded(float x) {
  std::uint16_t half = 0;
  vmath_table().to_bf16(&x, &half, 1);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

// Rows x columns, as f32 or bf16; between its rows, and where nothing is, NaN.
struct Stored {
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;
  std::int64_t ld;
  bool transposed, is_bf16;

  Stored(std::int64_t rows, std::int64_t columns, bool turned, bool bf16, std::uint64_t key)
      : ld((turned ? rows : columns) + 3), transposed(turned), is_bf16(bf16) {
    const std::int64_t lines = turned ? columns : rows;
    wide.assign(static_cast<std::size_t>(lines * ld), NAN);
    RandomStream random(key);
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t j = 0; j < ld - 3; ++j) {
        const auto value = static_cast<float>(random.uniform() * 2 - 1);
        wide[static_cast<std::size_t>(i * ld + j)] = bf16 ? rounded(value) : value;
      }
    }
    narrow.resize(wide.size());
    vmath_table().to_bf16(wide.data(), narrow.data(), static_cast<std::int64_t>(wide.size()));
  }
  double at(std::int64_t r, std::int64_t c) const {
    return rounded(wide[static_cast<std::size_t>(transposed ? c * ld + r : r * ld + c)]);
  }
  GemmOperand operand() const {
    const auto* data = is_bf16 ? reinterpret_cast<const float*>(narrow.data()) : wide.data();
    return {data, ld, transposed, is_bf16};
  }
};

struct Problem {
  GemmShape shape;
  Stored a, b;
  Problem(std::int64_t m, std::int64_t n, std::int64_t k, int a_form, int b_form)
      : shape{m, n, k, true},
        a(m, k, (a_form & 1) != 0, (a_form & 2) != 0, 1),
        b(k, n, (b_form & 1) != 0, (b_form & 2) != 0, 2) {}

  std::vector<float> run() const {
    std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n), 0.5F);
    std::vector<float> scratch(gemm_scratch_bytes(shape, omp_get_max_threads()) / sizeof(float) + 1, NAN);
    gemm_parallel(shape, a.operand(), b.operand(), {c.data(), shape.n, true}, scratch.data());
    return c;
  }
};

TEST(GemmBf16, AgreesWithSumsInDouble) {
  if (!has_bf16_products()) return;
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {5, 33, 7}, {40, 64, 64}, {31, 300, 129}, {70, 20, 1601}}) {
    for (int form = 0; form < 16; ++form) {
      const Problem t(m, n, k, form % 4, form / 4);
      const auto got = t.run();
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double want = 0.5;
          for (std::int64_t p = 0; p < k; ++p) want += t.a.at(i, p) * t.b.at(p, j);
          ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], want, 2e-6 * k + 1e-6)
              << m << " " << n << " " << k << ", form " << form << ", at " << i << " " << j;
        }
      }
    }
  }
}

TEST(GemmBf16, PackedIsTheSameToTheBit) {
  if (!has_bf16_products()) return;
  for (const int b_form : {2, 3}) {
    const Problem t(37, 100, 70, 0, b_form);
    std::vector<float> packed(packed_b_bytes(70, 100) / sizeof(float));
    pack_b_parallel(t.b.operand(), 70, 100, packed.data());
    std::vector<float> c(3700, 0.5F);
    gemm_packed_parallel(t.shape, t.a.operand(), packed.data(), {c.data(), 100, true});
    EXPECT_EQ(c, t.run()) << b_form;
  }
}

// A sum of rows in pieces of an even number of them, from the last row to the first, as weight gradients are made.
TEST(GemmBf16, PiecesAreTheSameToTheBit) {
  if (!has_bf16_products()) return;
  const Problem t(20, 40, 96, 1, 2);
  const auto backwards = [&](std::int64_t from, std::int64_t count, std::vector<float>& c) {
    const auto start = [&](const GemmOperand& x) {
      return GemmOperand{gemm_element(x, (from + count - 1) * x.ld), -x.ld, x.transposed, x.is_bf16};
    };
    std::vector<float> scratch(gemm_scratch_bytes({20, 40, count, true}, omp_get_max_threads()) / sizeof(float));
    gemm_parallel({20, 40, count, true}, start(t.a.operand()), start(t.b.operand()), {c.data(), 40, true},
                  scratch.data());
  };
  std::vector<float> whole(800, 0), pieces(800, 0);
  backwards(0, 96, whole);
  for (const std::int64_t from : {64, 32, 28, 0})
    backwards(from, from == 64 ? 32 : from == 32 ? 32 : from == 28 ? 4 : 28, pieces);
  EXPECT_EQ(whole, pieces);
}

TEST(GemmBf16, ThreadsChangeNoBit) {
  if (!has_bf16_products()) return;
  const Problem t(64, 512, 128, 0, 3);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto want = t.run();
  for (const int threads : {2, 5}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(t.run(), want) << threads;
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace neap
