// The matrix product in every build that this CPU can run, to the bit against the chain that gemm.h promises, and
// against sums in double.
#include "device/cpu/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/random.h"
#include "device/cpu/gemm_simd.h"

namespace neap {
namespace {

constexpr float kGuard = -12345.0F;

std::vector<Isa> runnable() {
  std::vector<Isa> all;
  for (Isa each : {Isa::kBase, Isa::kV3, Isa::kV4}) {
    if (each <= isa()) all.push_back(each);
  }
  return all;
}

const GemmTable& table_of(Isa each) {
  return each == Isa::kBase ? isa_base::gemm_table() : each == Isa::kV3 ? isa_v3::gemm_table() : isa_v4::gemm_table();
}

// A matrix of rows x columns in memory, exactly as large as it must be, with NaN between its rows: what is read beside
// the matrix shows in the results, and to AddressSanitizer.
struct Stored {
  std::vector<float> data;
  std::int64_t rows, columns, ld;
  bool transposed;

  Stored(std::int64_t r, std::int64_t c, std::int64_t gap, bool t, std::uint64_t key)
      : rows(t ? c : r), columns(t ? r : c), ld(columns + gap), transposed(t) {
    data.assign(static_cast<std::size_t>(rows > 0 ? (rows - 1) * ld + columns : 0),
                std::numeric_limits<float>::quiet_NaN());
    RandomStream random(key);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        data[static_cast<std::size_t>(i * ld + j)] = static_cast<float>(random.uniform() * 2 - 1);
      }
    }
  }
  float at(std::int64_t r, std::int64_t c) const {
    return data[static_cast<std::size_t>(transposed ? c * ld + r : r * ld + c)];
  }
  GemmOperand operand() const { return {data.data(), ld, transposed}; }
};

struct Problem {
  GemmShape shape;
  Stored a, b;
  std::vector<float> c;
  std::int64_t ldc;
  bool accumulate;
  float alpha;

  Problem(const GemmShape& s, bool a_transposed, bool b_transposed, bool acc, float scale = 1, std::int64_t gap = 3)
      : shape(s),
        a(s.m, s.k, gap, a_transposed, 1),
        b(s.k, s.n, gap, b_transposed, 2),
        ldc(s.n + 5),
        accumulate(acc),
        alpha(scale) {
    c.assign(static_cast<std::size_t>(s.m * ldc + 7), kGuard);
    RandomStream random(3);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) c[index(i, j)] = static_cast<float>(random.uniform() * 2 - 1);
    }
  }
  std::size_t index(std::int64_t i, std::int64_t j) const { return static_cast<std::size_t>(i * ldc + j); }
  GemmOutput output() { return {c.data(), ldc, accumulate}; }
  std::string name() const {
    return "m " + std::to_string(shape.m) + " n " + std::to_string(shape.n) + " k " + std::to_string(shape.k) +
           (a.transposed ? " A'" : "") + (b.transposed ? " B'" : "") + (accumulate ? " accumulate" : "") + " alpha " +
           std::to_string(alpha);
  }
};

float chain(const Problem& t, std::int64_t i, std::int64_t j, bool fused) {
  float sum = t.accumulate ? t.c[t.index(i, j)] : 0.0F;
  for (std::int64_t p = 0; p < t.shape.k; ++p) {
    const float a = t.alpha * t.a.at(i, p);
    const float b = t.b.at(p, j);
    sum = fused ? std::fma(a, b, sum) : sum + a * b;
  }
  return sum;
}

// What C must be, guards included.
std::vector<float> expected(const Problem& t, bool fused) {
  std::vector<float> want = t.c;
  for (std::int64_t i = 0; i < t.shape.m; ++i) {
    for (std::int64_t j = 0; j < t.shape.n; ++j) want[t.index(i, j)] = chain(t, i, j, fused);
  }
  return want;
}

// ASSERT on the first difference only.
void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
        << what << ": element " << i << " is " << got[i] << ", expected " << want[i];
  }
}

std::vector<float> guarded(std::size_t bytes) { return std::vector<float>(bytes / sizeof(float) + 1, kGuard); }

void check_build(const GemmTable& table, bool fused, const Problem& problem) {
  const std::vector<float> want = expected(problem, fused);
  const std::int64_t n = problem.shape.n;
  const std::int64_t k = problem.shape.k;

  Problem plain = problem;
  std::vector<float> scratch = guarded(gemm_scratch_bytes(plain.shape));
  table.plain(plain.shape, plain.a.operand(), plain.b.operand(), plain.output(), scratch.data(), plain.alpha);
  expect_same_bits(plain.c, want, "plain " + plain.name());
  EXPECT_EQ(scratch.back(), kGuard) << plain.name();

  Problem packed = problem;
  std::vector<float> panels = guarded(packed_b_bytes(k, n));
  table.pack_b(packed.b.operand(), k, n, panels.data());
  EXPECT_EQ(panels.back(), kGuard) << packed.name();
  table.packed(packed.shape, packed.a.operand(), panels.data(), packed.output(), packed.alpha);
  expect_same_bits(packed.c, want, "packed " + packed.name());
}

class Gemm : public testing::TestWithParam<Isa> {
 protected:
  void check(const Problem& problem) { check_build(table_of(GetParam()), GetParam() != Isa::kBase, problem); }
};

std::string name_of(const testing::TestParamInfo<Isa>& each) {
  return each.param == Isa::kBase ? "base" : each.param == Isa::kV3 ? "v3" : "v4";
}

INSTANTIATE_TEST_SUITE_P(Builds, Gemm, testing::ValuesIn(runnable()), name_of);

TEST_P(Gemm, OddSizesInAllForms) {
  for (std::int64_t m : {1, 2, 3, 5, 17, 33}) {
    for (std::int64_t n : {1, 2, 3, 5, 17, 33, 100}) {
      for (std::int64_t k : {1, 2, 3, 5, 17, 33, 100}) {
        for (int form = 0; form < 8; ++form) {
          check(Problem({m, n, k}, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(Gemm, EveryTileHeight) {
  for (std::int64_t m = 1; m <= 64; ++m) {
    check(Problem({m, 40, 9}, false, false, true));
    check(Problem({m, 40, 9}, true, false, true));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Gemm, SeveralBlocksOfEachSize) {
  for (int form = 0; form < 8; ++form) {
    const bool a = (form & 1) != 0, b = (form & 2) != 0, accumulate = (form & 4) != 0;
    check(Problem({30, 70, 2 * kGemmBlockK + 1}, a, b, accumulate));
    check(Problem({130, 2 * kGemmBlockN + 33, 20}, a, b, accumulate));
    if (HasFatalFailure()) return;
  }
}

// Rows a multiple of 4 KiB apart take another way to the kernels; so does any factor.
TEST_P(Gemm, CollidingRowsAndFactors) {
  for (int form = 0; form < 8; ++form) {
    const bool a = (form & 1) != 0, b = (form & 2) != 0, accumulate = (form & 4) != 0;
    const GemmShape shape = {61, 47, 50};
    check(Problem(shape, a, b, accumulate, 1, 1024 - (a ? shape.m : shape.k)));
    check(Problem(shape, a, b, accumulate, 0.3F));
    check(Problem({1, 47, 50}, a, b, accumulate, -0.125F));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Gemm, CloseToSumsInDouble) {
  Problem t({23, 45, 1700}, false, true, true, 0.7F);
  const std::vector<float> before = t.c;
  std::vector<float> scratch = guarded(gemm_scratch_bytes(t.shape));
  table_of(GetParam()).plain(t.shape, t.a.operand(), t.b.operand(), t.output(), scratch.data(), t.alpha);
  for (std::int64_t i = 0; i < t.shape.m; ++i) {
    for (std::int64_t j = 0; j < t.shape.n; ++j) {
      double sum = before[t.index(i, j)];
      for (std::int64_t p = 0; p < t.shape.k; ++p) {
        sum += static_cast<double>(t.alpha) * static_cast<double>(t.a.at(i, p)) * static_cast<double>(t.b.at(p, j));
      }
      EXPECT_NEAR(t.c[t.index(i, j)], sum, 1e-4);  // sums near 15, 1700 roundings
    }
  }
}

TEST_P(Gemm, EmptySums) {
  for (bool accumulate : {false, true}) check(Problem({4, 40, 0}, false, false, accumulate));
}

// The functions of gemm.h, in the build that they choose.
class GemmParallel : public testing::Test {
 protected:
  void TearDown() override { omp_set_num_threads(threads_); }
  const int threads_ = omp_get_max_threads();
};

TEST_F(GemmParallel, SameBitsForAnyNumberOfThreads) {
  for (const GemmShape& shape : {GemmShape{100, 300, 65}, GemmShape{1, 1000, 40}, GemmShape{300, 20, 801},
                                 GemmShape{3, 3, 3}, GemmShape{90, 96, 31}}) {
    for (int form = 0; form < 4; ++form) {
      const Problem problem(shape, (form & 1) != 0, (form & 2) != 0, true);
      const std::vector<float> want = expected(problem, isa() != Isa::kBase);
      for (int threads : {1, 2, 3, 4, 7}) {
        omp_set_num_threads(threads);
        Problem plain = problem;
        std::vector<float> scratch = guarded(gemm_scratch_bytes(shape, threads));
        gemm_parallel(shape, plain.a.operand(), plain.b.operand(), plain.output(), scratch.data());
        expect_same_bits(plain.c, want, "plain " + plain.name());
        EXPECT_EQ(scratch.back(), kGuard);

        Problem packed = problem;
        std::vector<float> panels = guarded(packed_b_bytes(shape.k, shape.n));
        pack_b_parallel(packed.b.operand(), shape.k, shape.n, panels.data());
        EXPECT_EQ(panels.back(), kGuard);
        gemm_packed_parallel(shape, packed.a.operand(), panels.data(), packed.output());
        expect_same_bits(packed.c, want, "packed " + packed.name());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Large enough for the threads to run at the same time, each with its own part of the scratch.
TEST_F(GemmParallel, LargeProductsAreThoseOfOneThread) {
  for (bool transposed : {false, true}) {
    Problem alone({300, 600, 900}, transposed, true, false);
    Problem together = alone;
    std::vector<float> scratch = guarded(gemm_scratch_bytes(alone.shape, threads_));
    gemm(alone.shape, alone.a.operand(), alone.b.operand(), alone.output(), scratch.data());
    for (int round = 0; round < 5; ++round) {
      gemm_parallel(together.shape, together.a.operand(), together.b.operand(), together.output(), scratch.data());
      expect_same_bits(together.c, alone.c, together.name());
    }
  }
}

TEST_F(GemmParallel, RowsAndColumnsDoNotDependOnTheirNeighbours) {
  Problem whole({50, 200, 70}, false, false, false);
  std::vector<float> panels(packed_b_bytes(70, 200) / sizeof(float));
  pack_b(whole.b.operand(), 70, 200, panels.data());
  Problem pieces = whole;
  gemm_packed(whole.shape, whole.a.operand(), panels.data(), whole.output());
  const std::int64_t cuts[] = {0, 1, 2, 9, 25, 50};
#pragma omp parallel for schedule(static)
  for (int part = 0; part < 5; ++part) {
    const std::int64_t first = cuts[part];
    const GemmOperand rows = {pieces.a.data.data() + first * pieces.a.ld, pieces.a.ld, false};
    for (std::int64_t column : {0, 64, 160}) {
      const std::int64_t n = column == 0 ? 64 : column == 64 ? 96 : 40;
      gemm_packed({cuts[part + 1] - first, n, 70}, rows, packed_columns(panels.data(), 70, column),
                  {pieces.c.data() + pieces.index(first, column), pieces.ldc, false});
    }
  }
  expect_same_bits(pieces.c, whole.c, "pieces");
}

TEST_F(GemmParallel, SumsInPiecesAreTheSame) {
  Problem whole({20, 50, 1000}, true, false, false);
  Problem pieces = whole;
  std::vector<float> scratch = guarded(gemm_scratch_bytes(whole.shape));
  gemm(whole.shape, whole.a.operand(), whole.b.operand(), whole.output(), scratch.data());
  std::int64_t done = 0;
  for (std::int64_t k : {1, 37, 500, 462}) {
    gemm({20, 50, k}, {pieces.a.data.data() + done * pieces.a.ld, pieces.a.ld, true},
         {pieces.b.data.data() + done * pieces.b.ld, pieces.b.ld, false}, {pieces.c.data(), pieces.ldc, done > 0},
         scratch.data());
    done += k;
  }
  expect_same_bits(pieces.c, whole.c, "pieces");
}

// Time backwards: chunks from the last to the first, each read from its last row to its first.
TEST_F(GemmParallel, NegativeStridesSumBackwards) {
  Problem t({20, 50, 90}, true, false, false);
  std::vector<float> want = t.c;
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t j = 0; j < 50; ++j) {
      float sum = 0;
      for (std::int64_t p = 89; p >= 0; --p) {
        sum = isa() != Isa::kBase ? std::fma(t.a.at(i, p), t.b.at(p, j), sum) : sum + t.a.at(i, p) * t.b.at(p, j);
      }
      want[t.index(i, j)] = sum;
    }
  }
  std::vector<float> scratch = guarded(gemm_scratch_bytes(t.shape));
  for (std::int64_t last : {89, 39}) {
    const std::int64_t k = last == 89 ? 50 : 40;
    gemm({20, 50, k}, {t.a.data.data() + last * t.a.ld, -t.a.ld, true}, {t.b.data.data() + last * t.b.ld, -t.b.ld},
         {t.c.data(), t.ldc, last == 39}, scratch.data());
  }
  expect_same_bits(t.c, want, "backwards");
}

TEST_F(GemmParallel, NothingToDo) {
  Problem t({4, 4, 4}, false, false, false);
  const std::vector<float> before = t.c;
  for (const GemmShape& shape : {GemmShape{0, 4, 4}, GemmShape{4, 0, 4}, GemmShape{0, 0, 0}}) {
    gemm_parallel(shape, t.a.operand(), t.b.operand(), t.output(), nullptr);
    gemm_packed_parallel(shape, t.a.operand(), nullptr, t.output());
    gemm(shape, t.a.operand(), t.b.operand(), t.output(), nullptr);
    gemm_packed(shape, t.a.operand(), nullptr, t.output());
  }
  expect_same_bits(t.c, before, "nothing to do");
}

}  // namespace
}  // namespace neap
