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

}  // namespace
}  // namespace neap
