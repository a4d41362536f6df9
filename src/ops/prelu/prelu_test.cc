#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Prelu, KernelsAgreeAndGradientsHold) {
  for (const auto& [x, slope] : std::vector<std::pair<Shape, Shape>>{
           {{5}, {}}, {{2, 3, 5}, {5}}, {{2, 3, 5}, {3, 1}}, {{2, 3, 5}, {2, 3, 5}}, {{4, 1}, {4, 1}}}) {
    check_op({.op = "prelu", .inputs = {{DType::kF32, x}, {DType::kF32, slope}}, .step = 1e-3});
  }
  check_kernels({.op = "prelu", .inputs = {{DType::kF32, {7, 3001}}, {DType::kF32, {3001}}}});
}

TEST(Prelu, InPlaceAndOnAnyNumberOfThreads) {
  const TensorType whole{DType::kF32, {7, 3001}};
  check_in_place({.op = "prelu", .inputs = {whole, {DType::kF32, {3001}}}});
  check_in_place({.op = "prelu_grad", .inputs = {whole, whole, {DType::kF32, {7, 1}}}});
  check_in_place({.op = "prelu_slope_grad", .inputs = {whole, whole}});
  check_threads({.op = "prelu", .inputs = {whole, {DType::kF32, {7, 1}}}});
}

TEST(Prelu, Values) {
  const HostTensor x = tensor_of({2, 2}, {-1, 2, -3, 4});
  const HostTensor slope = tensor_of({2}, {0.5F, 9});
  const auto out = run_op({.op = "prelu", .inputs = {x.type, slope.type}, .given = {{0, x}, {1, slope}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{-0.5F, 2, -1.5F, 4}));
}

TEST(Prelu, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "prelu", .inputs = {{DType::kF32, {4}}, {DType::kF32, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "prelu", .inputs = {{DType::kF32, {4}}, {DType::kF32, {2, 4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "prelu", .inputs = {{DType::kI32, {4}}, {DType::kF32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "prelu", .inputs = {{DType::kF32, {4}}}}), UserError);
}

TEST(Shrink, SoftAndHard) {
  const HostTensor x = tensor_of({5}, {-2, -1, 0, 1, 2});
  const auto run = [&](double bias) {
    return values_of(
        run_op({.op = "shrink", .inputs = {x.type}, .attrs = {{"bias", bias}, {"lambd", 1.5}}, .given = {{0, x}}})[0]);
  };
  EXPECT_EQ(run(0), (std::vector<float>{-2, 0, 0, 0, 2}));
  EXPECT_EQ(run(1.5), (std::vector<float>{-0.5F, 0, 0, 0, 0.5F}));
  check_op(
      {.op = "shrink", .inputs = {{DType::kF32, {3, 41}}}, .attrs = {{"bias", 0.1}, {"lambd", 0.3}}, .step = 1e-4});
  check_in_place({.op = "shrink_grad", .inputs = {{DType::kF32, {41}}, {DType::kF32, {41}}}});
}

}  // namespace
}  // namespace neap
