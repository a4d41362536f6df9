#include "ops/op_check.h"

namespace neap {
namespace {

HostTensor integers(const Shape& shape, std::initializer_list<std::int32_t> values) {
  HostTensor out({DType::kI32, shape});
  std::copy(values.begin(), values.end(), reinterpret_cast<std::int32_t*>(out.floats()));
  return out;
}

TEST(PaddingMask, HidesTokensThatNobodyAsksFor) {
  const HostTensor tokens = integers({2, 3}, {5, 0, 0, 0, 7, 0});
  const HostTensor targets = integers({2, 3}, {0, 3, -100, -100, -100, 1});
  const OpCase c{.op = "padding_mask", .inputs = {tokens.type, targets.type}, .given = {{0, tokens}, {1, targets}}};
  const auto out = run_op(c);
  EXPECT_EQ(out[0].type, (TensorType{DType::kBool, {2, 1, 1, 3}}));
  const auto* seen = reinterpret_cast<const std::uint8_t*>(out[0].floats());
  EXPECT_EQ(std::vector<int>(seen, seen + 6), (std::vector<int>{1, 1, 0, 0, 1, 1}));
  check_kernels(c);
}

TEST(PaddingMask, RefusesWhatDoesNotFit) {
  const TensorType tokens{DType::kI32, {2, 3}};
  EXPECT_THROW(run_op({.op = "padding_mask", .inputs = {tokens, {DType::kI32, {2, 4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "padding_mask", .inputs = {tokens, {DType::kI64, {2, 3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "padding_mask", .inputs = {{DType::kI32, {3}}, {DType::kI32, {3}}}}), UserError);
}

}  // namespace
}  // namespace neap
