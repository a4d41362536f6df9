#include <cmath>

#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

std::vector<HostTensor> run(const HostTensor& x, const Attrs& attrs) {
  return run_op({.op = "top_k", .inputs = {x.type}, .attrs = attrs, .given = {{0, x}}});
}

TEST(TopK, BestFirstAndFirstOfEquals) {
  for (const DType type : {DType::kF32, DType::kI64, DType::kF16, DType::kU8}) {
    const HostTensor x = tensor_from(type, {2, 4}, {3, 1, 3, 2, 0, 7, 5, 7});
    auto out = run(x, {{"k", 3}});
    EXPECT_EQ(numbers_of(out[0]), (Numbers{3, 3, 2, 7, 7, 5}));
    EXPECT_EQ(numbers_of(out[1]), (Numbers{0, 2, 3, 1, 3, 2}));
    out = run(x, {{"k", 2}, {"largest", 0}});
    EXPECT_EQ(numbers_of(out[0]), (Numbers{1, 2, 0, 5}));
    out = run(x, {{"k", 1}, {"axis", 0}});
    EXPECT_EQ(numbers_of(out[1]), (Numbers{0, 1, 1, 1}));
    EXPECT_EQ(out[1].type.text(), "i64[1,4]");
  }
}

TEST(TopK, NanComesFirst) {
  const auto out = run(tensor_of({4}, {1, NAN, 5, NAN}), {{"k", 3}});
  EXPECT_EQ(numbers_of(out[1]), (Numbers{1, 3, 2}));
}

// Few different numbers, so that most are equal to others.
TEST(TopK, KernelsAgree) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64, DType::kI32, DType::kI8,
                           DType::kU64, DType::kU16}) {
    for (const std::int64_t largest : {0, 1}) {
      for (const std::int64_t k : {1, 5, 64}) {
        const Attrs attrs{{"k", k}, {"largest", largest}, {"axis", 1}};
        check_kernels({.op = "top_k", .inputs = {{type, {3, 300, 2}}}, .attrs = attrs, .integer_bound = 40});
        check_kernels({.op = "top_k", .inputs = {{type, {70, 64}}}, .attrs = attrs, .integer_bound = 40});
      }
    }
  }
}

TEST(TopK, LongLines) {
  for (const std::int64_t k : {3, 4096, 4097, 10001}) {
    check_kernels({.op = "top_k", .inputs = {{DType::kF32, {3, 10001}}}, .attrs = {{"k", k}}});
    check_kernels({.op = "top_k", .inputs = {{DType::kI32, {3, 10001}}}, .attrs = {{"k", k}}, .integer_bound = 50});
  }
}

TEST(TopK, ZerosAreEqualAndNanIsBest) {
  const float inf = INFINITY;
  const HostTensor x = tensor_of({2, 8}, {0, -0.0F, NAN, -inf, -NAN, inf, 1, -1, -0.0F, 0, -0.0F, 0, 1, -1, inf, -inf});
  for (const std::int64_t largest : {0, 1}) {
    for (const std::int64_t k : {1, 3, 8}) {
      check_kernels({.op = "top_k", .inputs = {x.type}, .attrs = {{"k", k}, {"largest", largest}}, .given = {{0, x}}});
    }
  }
}

TEST(TopK, GradientOfTheValues) {
  HostTensor x = tensor_of({2, 3, 2}, {1, 9, 4, 2, 6, 5, 3, 8, 0, 7, 11, 10});
  check_op({.op = "top_k", .inputs = {x.type}, .attrs = {{"k", 2}, {"axis", 1}}, .given = {{0, x}}});
  check_op({.op = "top_k", .inputs = {x.type}, .attrs = {{"k", 1}}, .given = {{0, x}}});
}

TEST(TopK, RefusesWhatDoesNotFit) {
  const HostTensor x = tensor_of({3}, {1, 2, 3});
  EXPECT_THROW(run(x, {{"k", 4}}), UserError);
  EXPECT_THROW(run(x, {{"k", -1}}), UserError);
  EXPECT_THROW(run(x, {}), UserError);
  EXPECT_THROW(run(x, {{"k", 1}, {"axis", 1}}), UserError);
  EXPECT_EQ(run(x, {{"k", 0}})[0].type.text(), "f32[0]");
}

}  // namespace
}  // namespace neap
