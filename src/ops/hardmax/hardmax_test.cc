#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Hardmax, FirstOfTheLargest) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16}) {
    const HostTensor x = tensor_from(type, {2, 3}, {1, 3, 3, 5, -1, 2});
    const auto run = [&](std::int64_t axis) {
      return numbers_of(run_op({.op = "hardmax", .inputs = {x.type}, .attrs = {{"axis", axis}}, .given = {{0, x}}})[0]);
    };
    EXPECT_EQ(run(-1), (std::vector<double>{0, 1, 0, 1, 0, 0}));
    EXPECT_EQ(run(0), (std::vector<double>{0, 1, 1, 1, 0, 0}));
  }
  check_in_place({.op = "hardmax", .inputs = {{DType::kF32, {4, 5}}}});
  EXPECT_THROW(run_op({.op = "hardmax", .inputs = {{DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "hardmax", .inputs = {{DType::kF32, {4}}}, .attrs = {{"axis", 1}}}), UserError);
}

}  // namespace
}  // namespace neap
