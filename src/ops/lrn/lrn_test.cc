#include <cmath>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Lrn, GradientsHold) {
  for (const std::int64_t size : {1, 2, 3, 5, 9}) {
    check_op({.op = "lrn",
              .inputs = {{DType::kF32, {2, 3, 6}}},
              .attrs = {{"size", size}, {"alpha", 0.7}, {"beta", 0.6}, {"bias", 0.8}}});
  }
  check_threads({.op = "lrn", .inputs = {{DType::kF32, {5, 7, 6}}}, .attrs = {{"size", 3}}});
}

TEST(Lrn, EvenWindowsReachFurtherBehind) {
  const HostTensor x = tensor_of({1, 3}, {1, 2, 4});
  const auto out = run_op({.op = "lrn",
                           .inputs = {x.type},
                           .attrs = {{"size", 2}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 0.0}},
                           .given = {{0, x}}});
  EXPECT_FLOAT_EQ(out[0].floats()[0], 1.0F / 5);
  EXPECT_FLOAT_EQ(out[0].floats()[1], 2.0F / 20);
  EXPECT_FLOAT_EQ(out[0].floats()[2], 4.0F / 16);
}

TEST(Lrn, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "lrn", .inputs = {{DType::kF32, {2, 3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "lrn", .inputs = {{DType::kF32, {2, 3}}}, .attrs = {{"size", 0}}}), UserError);
  EXPECT_THROW(run_op({.op = "lrn", .inputs = {{DType::kI32, {2, 3}}}, .attrs = {{"size", 1}}}), UserError);
}

}  // namespace
}  // namespace neap
