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

TEST(Dft, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run(tensor_of({4}, {1, 2, 3, 4})), UserError);
  EXPECT_THROW(run(tensor_of({1, 3}, {1, 2, 3})), UserError);
  EXPECT_THROW(run(tensor_of({2, 2}, {1, 2, 3, 4}), {{"axis", 1}}), UserError);
  EXPECT_THROW(run(tensor_of({2, 2}, {1, 2, 3, 4}), {{"length", 0}}), UserError);
}

}  // namespace
}  // namespace neap
