#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

TEST(LpPool, SumsPowers) {
  const HostTensor x = tensor_of({1, 2, 2, 1}, {3, -4, 0, 12});
  const auto run = [&](std::int64_t p) {
    return run_op({.op = "lp_pool",
                   .inputs = {x.type},
                   .attrs = {{"kernel", Ints{2, 2}}, {"p", p}, {"pads", Ints{1, 0, 0, 0}}},
                   .given = {{0, x}}})[0];
  };
  EXPECT_EQ(values_of(run(2)), (std::vector<float>{5, 13}));
  EXPECT_EQ(values_of(run(1)), (std::vector<float>{7, 19}));
  EXPECT_THROW(run(0), UserError);
}

TEST(LpPool, KernelsAgree) {
  for (const std::int64_t p : {1, 2, 3}) {
    check_kernels({.op = "lp_pool",
                   .inputs = {{DType::kF32, {2, 9, 8, 3}}},
                   .attrs = {{"kernel", Ints{3, 2}}, {"p", p}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}}});
    check_kernels({.op = "lp_pool",
                   .inputs = {{DType::kF32, {2, 5, 6, 7, 2}}},
                   .attrs = {{"kernel", Ints{2, 3, 2}}, {"p", p}, {"dilations", Ints{2, 1, 3}}}});
    check_kernels({.op = "lp_pool",
                   .inputs = {{DType::kF32, {3, 11, 4}}},
                   .attrs = {{"kernel", Ints{4}}, {"p", p}, {"strides", Ints{3}}, {"ceil_mode", 1}}});
  }
}

// Indices of pools in one, two and three axes; with 17 x 17 taps they are of 32 bits.
TEST(MaxPoolIndices, KernelsAgree) {
  const auto check = [](const Shape& x, const Attrs& pool) {
    const auto pooled = run_op({.op = "max_pool", .inputs = {{DType::kF32, x}}, .attrs = pool});
    Attrs attrs = pool;
    attrs.set("shape", x);
    for (const std::int64_t order : {0, 1}) {
      attrs.set("storage_order", order);
      check_kernels({.op = "max_pool_indices", .inputs = {pooled[1].type}, .attrs = attrs, .given = {{0, pooled[1]}}});
    }
  };
  check({3, 11, 4}, {{"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}});
  check({2, 9, 8, 3}, {{"kernel", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}});
  check({2, 20, 19, 3}, {{"kernel", Ints{17, 17}}, {"pads", Ints{2, 3, 1, 0}}});
  check({2, 5, 6, 7, 2}, {{"kernel", Ints{2, 3, 2}}, {"dilations", Ints{2, 1, 3}}});
}

// Two channels of 2 x 3 pixels; channels-last in memory, [N, C, H, W] in the indices.
TEST(MaxPoolIndices, CountAsOnnxDoes) {
  const HostTensor x = tensor_of({1, 2, 3, 2}, {1, 6, 2, 5, 3, 4, 9, 1, 8, 2, 7, 3});
  const Attrs attrs{{"kernel", Ints{2, 2}}};
  const auto pooled = run_op({.op = "max_pool", .inputs = {x.type}, .attrs = attrs, .given = {{0, x}}});
  EXPECT_EQ(values_of(pooled[0]), (std::vector<float>{9, 6, 8, 5}));
  const auto indices = [&](std::int64_t order) {
    Attrs with = attrs;
    with.set("shape", x.type.shape);
    with.set("storage_order", order);
    return numbers_of(
        run_op({.op = "max_pool_indices", .inputs = {pooled[1].type}, .attrs = with, .given = {{0, pooled[1]}}})[0]);
  };
  EXPECT_EQ(indices(0), (Numbers{3, 6, 4, 7}));
  EXPECT_EQ(indices(1), (Numbers{1, 6, 3, 8}));
}

TEST(MaxUnpool, PutsBackAndGradientHolds) {
  const HostTensor x = tensor_of({1, 1, 2, 2}, {1, 2, 3, 4});
  const HostTensor at = tensor_from(DType::kI64, {1, 1, 2, 2}, {3, 6, 4, 11});
  OpCase c{.op = "max_unpool",
           .inputs = {x.type, at.type},
           .attrs = {{"shape", Shape{1, 2, 3, 2}}},
           .given = {{0, x}, {1, at}}};
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{0, 2, 0, 0, 0, 0, 1, 0, 3, 0, 0, 4}));
  check_op(c);
  c.given[1] = tensor_from(DType::kI64, {1, 1, 2, 2}, {3, 6, 4, 12});
  EXPECT_THROW(run_op(c), UserError);
}

TEST(MaxUnpool, OfSeveralTheLastStays) {
  const HostTensor x = tensor_of({1, 4, 1}, {1, 2, 3, 4});
  const HostTensor at = tensor_from(DType::kI64, {1, 4, 1}, {2, 0, 2, 0});
  const OpCase c{.op = "max_unpool",
                 .inputs = {x.type, at.type},
                 .attrs = {{"shape", Shape{1, 3, 1}}},
                 .given = {{0, x}, {1, at}}};
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{4, 0, 3}));
  check_kernels(c);
  check_kernels({.op = "max_unpool",
                 .inputs = {{DType::kF32, {2, 30, 31, 3}}, {DType::kI64, {2, 30, 31, 3}}},
                 .attrs = {{"shape", Shape{2, 7, 9, 3}}},
                 .integer_bound = 2 * 7 * 9 * 3});
}

}  // namespace
}  // namespace neap
