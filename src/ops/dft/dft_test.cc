#include "ops/dft/dft.h"

#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

HostTensor run(const HostTensor& x, const Attrs& attrs = {}) {
  return run_op({.op = "dft", .inputs = {x.type}, .attrs = attrs, .given = {{0, x}}})[0];
}

void expect_near(const HostTensor& got, const std::vector<double>& want) {
  const auto numbers = numbers_of(got);
  ASSERT_EQ(numbers.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(numbers[i], want[i], 4e-3) << i;
}

TEST(Dft, OfRealNumbers) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16}) {
    const HostTensor x = tensor_from(type, {4, 1}, {1, 2, 3, 4});
    expect_near(run(x), {10, 0, -2, 2, -2, 0, -2, -2});
    expect_near(run(x, {{"onesided", 1}}), {10, 0, -2, 2, -2, 0});
    expect_near(run(x, {{"length", 2}}), {3, 0, -1, 0});
    expect_near(run(x, {{"length", 6}, {"onesided", 1}}), {10, 0, -3.5, -4.330127, 2.5, 0.866025, -2, 0});
  }
}

TEST(Dft, InverseUndoesItOnAnyAxis) {
  const HostTensor x = random_tensor({DType::kF32, {3, 5, 4, 2}}, 7);
  for (const std::int64_t axis : {0, 1, 2}) {
    const HostTensor back = run(run(x, {{"axis", axis}}), {{"axis", axis}, {"inverse", 1}});
    for (std::int64_t i = 0; i < 120; ++i) EXPECT_NEAR(back.floats()[i], x.floats()[i], 1e-5);
  }
}

// One line by powers of two, as a GPU does it.
std::vector<ops::Complex> stages(std::vector<ops::Complex> from, bool inverse) {
  const auto n = static_cast<std::int64_t>(from.size());
  std::vector<ops::Complex> to(from.size());
  for (std::int64_t s = 1; s < n; s *= 2) {
    for (std::int64_t i = 0; i < n / 2; ++i) {
      const ops::Complex w = ops::turn(ops::stockham_part(s, i), n);
      ops::stockham_pair(from.data(), to.data(), n, s, i, inverse ? w : ops::conjugate(w));
    }
    from.swap(to);
  }
  return from;
}

std::vector<ops::Complex> fast_line(const ops::FastTransform& f, const float* x) {
  std::vector<ops::Complex> line;
  std::vector<ops::Complex> other;
  for (std::int64_t j = 0; j < f.m; ++j) line.push_back(f.load(x, 0, j));
  for (std::int64_t j = 0; j < f.m; ++j) other.push_back(f.other(j));
  line = stages(line, !f.is_product && f.t.inverse);
  if (f.is_product) {
    other = stages(other, false);
    for (std::size_t j = 0; j < line.size(); ++j) line[j] = other[j] * line[j];
    line = stages(line, true);
  }
  for (std::int64_t k = 0; k < f.t.out; ++k) {
    line[static_cast<std::size_t>(k)] = f.result(k, line[static_cast<std::size_t>(k)]);
  }
  return line;
}

TEST(Dft, ByPowersOfTwoGivesTheSame) {
  for (const std::int64_t length : {1, 2, 3, 7, 8, 60, 64, 100, 129}) {
    for (const std::int64_t parts : {1, 2}) {
      for (const bool inverse : {false, true}) {
        const HostTensor x = random_tensor({DType::kF32, {50, parts}}, 9);
        const ops::FastTransform f({.in = 50, .length = length, .out = length, .parts = parts, .inverse = inverse});
        const auto got = fast_line(f, x.floats());
        for (std::int64_t k = 0; k < length; ++k) {
          const ops::Complex want = f.t.result(x.floats(), 0, k);
          EXPECT_NEAR(got[static_cast<std::size_t>(k)].re, want.re, 1e-12) << length << ", " << k;
          EXPECT_NEAR(got[static_cast<std::size_t>(k)].im, want.im, 1e-12) << length << ", " << k;
        }
      }
    }
  }
}

// Term by term, in shared memory and stage by stage; padded, cut, one side of it, along any axis.
TEST(Dft, EveryKernelGivesTheSame) {
  for (const std::int64_t length : {5, 32, 60, 64, 100, 512, 513, 1024, 1500, 2048}) {
    for (const std::int64_t parts : {1, 2}) {
      Attrs attrs{{"axis", 1}, {"length", length}, {"onesided", parts == 1 ? 1 : 0}};
      check_kernels({.op = "dft", .inputs = {{DType::kF32, {2, 90, 3, parts}}}, .attrs = attrs});
      attrs.set("inverse", 1);
      check_kernels({.op = "dft", .inputs = {{DType::kF32, {2, 90, 3, parts}}}, .attrs = attrs});
    }
  }
  check_kernels({.op = "dft", .inputs = {{DType::kF32, {3, 1030, 2}}}});
  check_kernels({.op = "dft", .inputs = {{DType::kF32, {0, 100, 2}}}});
}

TEST(Dft, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run(tensor_of({4}, {1, 2, 3, 4})), UserError);
  EXPECT_THROW(run(tensor_of({1, 3}, {1, 2, 3})), UserError);
  EXPECT_THROW(run(tensor_of({2, 2}, {1, 2, 3, 4}), {{"axis", 1}}), UserError);
  EXPECT_THROW(run(tensor_of({2, 2}, {1, 2, 3, 4}), {{"length", 0}}), UserError);
}

}  // namespace
}  // namespace neap
