#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Trilu, BothTrianglesOfEveryDiagonal) {
  for (const DType type : {DType::kF32, DType::kI64, DType::kBool}) {
    for (const std::int64_t k : {-9, -2, -1, 0, 1, 2, 9}) {
      for (const std::int64_t upper : {0, 1}) {
        const HostTensor x = tensor_from(type, {2, 3, 4}, std::vector<double>(24, 1));
        const auto y = numbers_of(
            run_op({.op = "trilu", .inputs = {x.type}, .attrs = {{"k", k}, {"upper", upper}}, .given = {{0, x}}})[0]);
        for (std::int64_t i = 0; i < 24; ++i) {
          const std::int64_t diagonal = i % 4 - i / 4 % 3;
          const bool is_kept = upper != 0 ? diagonal >= k : diagonal <= k;
          EXPECT_EQ(y[static_cast<std::size_t>(i)], is_kept ? 1 : 0) << k << upper << i;
        }
      }
    }
  }
}

TEST(Trilu, GradientAndInPlace) {
  check_op({.op = "trilu", .inputs = {{DType::kF32, {2, 3, 3}}}, .attrs = {{"upper", 0}, {"k", -1}}});
  check_in_place({.op = "trilu", .inputs = {{DType::kF32, {2, 3, 3}}}});
  check_kernels({.op = "trilu", .inputs = {{DType::kF32, {2, 0, 3}}}});
  EXPECT_THROW(run_op({.op = "trilu", .inputs = {{DType::kF32, {3}}}}), UserError);
}

}  // namespace
}  // namespace neap
