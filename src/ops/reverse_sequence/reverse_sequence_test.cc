#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

TEST(ReverseSequence, EitherAxisFirst) {
  const HostTensor x = tensor_from(DType::kI32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](std::int64_t time, const Numbers& lengths) {
    const HostTensor n = tensor_from(DType::kI64, {static_cast<std::int64_t>(lengths.size())}, lengths);
    return numbers_of(run_op({.op = "reverse_sequence",
                              .inputs = {x.type, n.type},
                              .attrs = {{"time_axis", time}, {"batch_axis", 1 - time}},
                              .given = {{0, x}, {1, n}}})[0]);
  };
  EXPECT_EQ(run(0, {3, 2}), (Numbers{5, 4, 3, 2, 1, 6}));
  EXPECT_EQ(run(1, {2, 1, 0}), (Numbers{2, 1, 3, 4, 5, 6}));
  EXPECT_THROW(run(0, {4, 2}), UserError);
  EXPECT_THROW(run(0, {1}), UserError);
}

TEST(ReverseSequence, OfEverySize) {
  const HostTensor lengths = tensor_from(DType::kI32, {3}, {0, 5, 3});
  for (const DType type : {DType::kF32, DType::kI64, DType::kF16, DType::kBool}) {
    check_kernels({.op = "reverse_sequence", .inputs = {{type, {5, 3, 2, 7}}, lengths.type}, .given = {{1, lengths}}});
    check_kernels({.op = "reverse_sequence",
                   .inputs = {{type, {3, 5}}, lengths.type},
                   .attrs = {{"time_axis", 1}, {"batch_axis", 0}},
                   .given = {{1, lengths}}});
  }
  check_kernels(
      {.op = "reverse_sequence", .inputs = {{DType::kF32, {5, 3, 0}}, lengths.type}, .given = {{1, lengths}}});
}

TEST(ReverseSequence, GradientHolds) {
  check_op({.op = "reverse_sequence",
            .inputs = {{DType::kF32, {4, 3, 2}}, {DType::kI64, {3}}},
            .given = {{1, tensor_from(DType::kI64, {3}, {4, 2, 1})}}});
}

}  // namespace
}  // namespace neap
