#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Where, KernelsAgreeAndGradientsHold) {
  struct Shapes {
    Shape c, a, b;
  };
  const std::vector<Shapes> all = {{{}, {}, {}},          {{7}, {7}, {7}},         {{5, 1}, {5, 9}, {}},
                                   {{5, 9}, {9}, {5, 1}}, {{3, 3}, {2, 3, 3}, {}}, {{4, 1, 3}, {2, 1}, {1, 1, 3}},
                                   {{}, {2, 5}, {5}},     {{9, 2003}, {2003}, {}}};
  for (const Shapes& s : all) {
    const OpCase c{.op = "where", .inputs = {{DType::kBool, s.c}, {DType::kF32, s.a}, {DType::kF32, s.b}}};
    s.c.count() < 1000 ? check_op(c) : check_kernels(c);
  }
}

TEST(Where, AnyTypeOfElement) {
  for (const DType type : {DType::kI64, DType::kI32, DType::kF16, DType::kU8, DType::kBool, DType::kU64}) {
    check_kernels({.op = "where", .inputs = {{DType::kBool, {3, 37}}, {type, {3, 37}}, {type, {37}}}});
  }
}

TEST(Where, InPlaceAndOnAnyNumberOfThreads) {
  const OpCase c{.op = "where", .inputs = {{DType::kBool, {20001}}, {DType::kF32, {20001}}, {DType::kF32, {20001}}}};
  check_in_place(c);
  check_threads(c);
}

TEST(Where, RefusesWhatDoesNotFit) {
  const TensorType f{DType::kF32, {4}};
  const TensorType b{DType::kBool, {4}};
  EXPECT_THROW(run_op({.op = "where", .inputs = {f, f, f}}), UserError);
  EXPECT_THROW(run_op({.op = "where", .inputs = {b, f, {DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "where", .inputs = {b, f, {DType::kF32, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "where", .inputs = {b, {DType::kBits, {4}}, {DType::kBits, {4}}}}), UserError);
}

}  // namespace
}  // namespace neap
