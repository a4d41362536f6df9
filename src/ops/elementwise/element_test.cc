// Ops on the types that training does not use.
#include <cmath>

#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;
constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kI16, DType::kI8,
                               DType::kU64, DType::kU32, DType::kU16, DType::kU8};
constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

std::vector<DType> all_numbers() {
  std::vector<DType> types(std::begin(kIntegers), std::end(kIntegers));
  for (const DType type : kFloats) types.push_back(type);
  return types;
}

Numbers of_one(const std::string& op, const HostTensor& x, const Attrs& attrs = {}) {
  return numbers_of(run_op({.op = op, .inputs = {x.type}, .attrs = attrs, .given = {{0, x}}})[0]);
}

Numbers of_two(const std::string& op, const HostTensor& a, const HostTensor& b, const Attrs& attrs = {}) {
  return numbers_of(run_op({.op = op, .inputs = {a.type, b.type}, .attrs = attrs, .given = {{0, a}, {1, b}}})[0]);
}

TEST(Element, ArithmeticOfEveryType) {
  for (const DType type : all_numbers()) {
    const HostTensor a = tensor_from(type, {4}, {7, 12, 3, 100});
    const HostTensor b = tensor_from(type, {4}, {2, 5, 3, 8});
    EXPECT_EQ(of_two("add", a, b), (Numbers{9, 17, 6, 108})) << name(type);
    EXPECT_EQ(of_two("sub", a, b), (Numbers{5, 7, 0, 92})) << name(type);
    EXPECT_EQ(of_two("mul", a, tensor_from(type, {}, {1})), (Numbers{7, 12, 3, 100})) << name(type);
    EXPECT_EQ(of_two("mod", a, b), (Numbers{1, 2, 0, 4})) << name(type);
    EXPECT_EQ(of_two("min", a, b), (Numbers{2, 5, 3, 8})) << name(type);
    EXPECT_EQ(of_two("max", a, b), (Numbers{7, 12, 3, 100})) << name(type);
    EXPECT_EQ(of_two("less", b, a), (Numbers{1, 1, 0, 1})) << name(type);
    EXPECT_EQ(of_two("equal", b, a), (Numbers{0, 0, 1, 0})) << name(type);
    EXPECT_EQ(of_two("greater_or_equal", b, a), (Numbers{0, 0, 1, 0})) << name(type);
  }
}

TEST(Element, IntegersWrapAndDivideTowardsZero) {
  EXPECT_EQ(of_two("add", tensor_from(DType::kU8, {2}, {250, 1}), tensor_from(DType::kU8, {2}, {10, 1})),
            (Numbers{4, 2}));
  EXPECT_EQ(of_two("sub", tensor_from(DType::kU32, {1}, {1}), tensor_from(DType::kU32, {1}, {2})),
            (Numbers{4294967295.0}));
  EXPECT_EQ(of_two("div", tensor_from(DType::kI8, {3}, {-7, 7, -128}), tensor_from(DType::kI8, {3}, {2, 0, -1})),
            (Numbers{-3, 0, -128}));
  EXPECT_EQ(of_two("mod", tensor_from(DType::kI16, {2}, {-7, 7}), tensor_from(DType::kI16, {2}, {3, -3})),
            (Numbers{2, -2}));
  EXPECT_EQ(of_two("mul", tensor_from(DType::kI16, {1}, {300}), tensor_from(DType::kI16, {1}, {300})),
            (Numbers{90000 - 65536}));
}

TEST(Element, HalvesAreRoundedOnce) {
  EXPECT_EQ(of_two("add", tensor_from(DType::kF16, {2}, {2048, 1}), tensor_from(DType::kF16, {2}, {1, 0.5})),
            (Numbers{2048, 1.5}));
  EXPECT_EQ(of_two("mul", tensor_from(DType::kF16, {1}, {300}), tensor_from(DType::kF16, {1}, {300})),
            (Numbers{HUGE_VAL}));
  EXPECT_EQ(of_two("add", tensor_from(DType::kF64, {1}, {1}), tensor_from(DType::kF64, {1}, {1e-12})),
            (Numbers{1 + 1e-12}));
}

TEST(Element, PowersOfMixedTypes) {
  const HostTensor i = tensor_from(DType::kI32, {4}, {2, -3, 5, 0});
  EXPECT_EQ(of_two("pow", i, i), (Numbers{4, 0, 3125, 1}));
  EXPECT_EQ(of_two("pow", i, tensor_from(DType::kF32, {}, {2})), (Numbers{4, 9, 25, 0}));
  EXPECT_EQ(of_two("pow", tensor_from(DType::kF32, {2}, {1.5, 2}), tensor_from(DType::kI64, {2}, {2, -1})),
            (Numbers{2.25, 0.5}));
  EXPECT_EQ(of_two("pow", tensor_from(DType::kI64, {1}, {3}), tensor_from(DType::kI64, {1}, {39})),
            (Numbers{4052555153018976267.0}));
}

TEST(Element, GradientOfAPowerByAnInteger) {
  check_op({.op = "pow",
            .inputs = {{DType::kF32, {4}}, {DType::kI64, {4}}},
            .low = 0.5,
            .high = 2,
            .integer_bound = 4,
            .step = 1e-3});
}

TEST(Element, FunctionsOfFloatsAndIntegers) {
  for (const DType type : kFloats) {
    const HostTensor x = tensor_from(type, {3}, {-1.5, 0.25, 4});
    EXPECT_EQ(of_one("neg", x), (Numbers{1.5, -0.25, -4})) << name(type);
    EXPECT_EQ(of_one("floor", x), (Numbers{-2, 0, 4})) << name(type);
    EXPECT_EQ(of_one("square", x), (Numbers{2.25, 0.0625, 16})) << name(type);
    EXPECT_EQ(of_one("sqrt", tensor_from(type, {2}, {0.25, 4})), (Numbers{0.5, 2})) << name(type);
    EXPECT_EQ(of_one("is_nan", tensor_from(type, {3}, {NAN, 1, HUGE_VAL})), (Numbers{1, 0, 0})) << name(type);
    EXPECT_EQ(of_one("is_inf", tensor_from(type, {3}, {NAN, 1, HUGE_VAL})), (Numbers{0, 0, 1})) << name(type);
  }
  EXPECT_DOUBLE_EQ(of_one("exp", tensor_from(DType::kF64, {1}, {1}))[0], std::exp(1.0));
  EXPECT_EQ(of_one("abs", tensor_from(DType::kI8, {3}, {-128, -5, 5})), (Numbers{-128, 5, 5}));
  EXPECT_EQ(of_one("sign", tensor_from(DType::kI16, {3}, {-128, 0, 5})), (Numbers{-1, 0, 1}));
  EXPECT_EQ(of_one("abs", tensor_from(DType::kU64, {2}, {3, 0})), (Numbers{3, 0}));
  EXPECT_THROW(of_one("exp", tensor_from(DType::kI8, {1}, {1})), UserError);
}

TEST(Element, CastsBetweenAllTypes) {
  std::vector<DType> types = all_numbers();
  types.push_back(DType::kBool);
  for (const DType from : types) {
    for (const DType to : types) {
      const HostTensor x = tensor_from(from, {3}, {0, 1, 1});
      EXPECT_EQ(of_one("cast", x, {{"to", std::string(name(to))}}), (Numbers{0, 1, 1})) << name(from) << name(to);
    }
  }
  EXPECT_EQ(of_one("cast", tensor_from(DType::kF64, {2}, {-3.7, 1e9}), {{"to", std::string("i16")}}),
            (Numbers{-3, 32767}));
  EXPECT_EQ(of_one("cast", tensor_from(DType::kI32, {1}, {-1}), {{"to", std::string("u32")}}), (Numbers{4294967295.0}));
}

TEST(Element, ReductionsOfEveryType) {
  for (const DType type : all_numbers()) {
    const HostTensor x = tensor_from(type, {2, 3}, {1, 5, 3, 4, 2, 3});
    const Attrs rows{{"axes", Ints{1}}, {"keepdims", 0}};
    EXPECT_EQ(of_one("reduce_sum", x, rows), (Numbers{9, 9})) << name(type);
    EXPECT_EQ(of_one("reduce_mean", x, rows), (Numbers{3, 3})) << name(type);
    EXPECT_EQ(of_one("reduce_max", x, rows), (Numbers{5, 4})) << name(type);
    EXPECT_EQ(of_one("reduce_min", x, rows), (Numbers{1, 2})) << name(type);
    EXPECT_EQ(of_one("reduce_prod", x, rows), (Numbers{15, 24})) << name(type);
    EXPECT_EQ(of_one("reduce_l1", x, rows), (Numbers{9, 9})) << name(type);
    EXPECT_EQ(of_one("reduce_sum_square", x, rows), (Numbers{35, 29})) << name(type);
    EXPECT_EQ(of_one("sum_to", x, {{"shape", Shape{3}}}), (Numbers{5, 7, 6})) << name(type);
    EXPECT_EQ(of_one("argmax", x, {{"axis", 1}}), (Numbers{1, 0})) << name(type);
    EXPECT_EQ(of_one("argmin", x, {{"axis", 1}}), (Numbers{0, 1})) << name(type);
    EXPECT_EQ(of_one("cumsum", x, {{"axis", 1}}), (Numbers{1, 6, 9, 4, 6, 9})) << name(type);
  }
  const HostTensor flags = tensor_from(DType::kBool, {3}, {0, 1, 0});
  EXPECT_EQ(of_one("reduce_max", flags), (Numbers{1}));
  EXPECT_EQ(of_one("reduce_min", flags), (Numbers{0}));
  EXPECT_THROW(of_one("reduce_sum", flags), UserError);
  EXPECT_THROW(of_one("reduce_log_sum_exp", tensor_from(DType::kI32, {1}, {0})), UserError);
}

TEST(Element, LastIndexOfEquals) {
  for (const DType type : {DType::kF32, DType::kI32}) {
    const HostTensor x = tensor_from(type, {4}, {2, 7, 7, 2});
    EXPECT_EQ(of_one("argmax", x, {{"select_last_index", 1}}), (Numbers{2}));
    EXPECT_EQ(of_one("argmin", x, {{"select_last_index", 1}}), (Numbers{3}));
    EXPECT_EQ(of_one("argmax", x), (Numbers{1}));
  }
}

TEST(Element, ProductsOfEveryType) {
  for (const DType type : all_numbers()) {
    const HostTensor a = tensor_from(type, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(of_two("matmul", a, a), (Numbers{7, 10, 15, 22})) << name(type);
    EXPECT_EQ(of_two("matmul", a, tensor_from(type, {2}, {2, 1})), (Numbers{4, 10})) << name(type);
  }
  EXPECT_THROW(of_two("matmul", tensor_from(DType::kF64, {1}, {1}), tensor_from(DType::kF32, {1}, {1})), UserError);
}

TEST(Element, SourcesAndPadding) {
  for (const DType type : all_numbers()) {
    const std::string text(name(type));
    const auto out = [&](const std::string& op, Attrs attrs) {
      attrs.set("dtype", text);
      return numbers_of(run_op({.op = op, .inputs = {}, .attrs = attrs})[0]);
    };
    EXPECT_EQ(out("fill", {{"shape", Shape{2}}, {"value", 3.0}}), (Numbers{3, 3})) << text;
    EXPECT_EQ(out("range", {{"shape", Shape{3}}, {"start", 1.0}, {"delta", 2.0}}), (Numbers{1, 3, 5})) << text;
    const HostTensor x = tensor_from(type, {2}, {5, 6});
    EXPECT_EQ(of_one("pad", x, {{"pads", Ints{1, 0}}, {"value", 9.0}}), (Numbers{9, 5, 6})) << text;
    EXPECT_EQ(of_one("zeros_like", x), (Numbers{0, 0})) << text;
    EXPECT_EQ(of_one("expand", x, {{"shape", Shape{2, 2}}}), (Numbers{5, 6, 5, 6})) << text;
    EXPECT_EQ(of_one("one_hot", tensor_from(type, {2}, {1, 0}), {{"depth", 2}, {"dtype", text}, {"on", 4.0}}),
              (Numbers{0, 4, 4, 0}))
        << text;
  }
  EXPECT_THROW(
      run_op(
          {.op = "fill", .inputs = {}, .attrs = {{"shape", Shape{2}}, {"value", 300.0}, {"dtype", std::string("u8")}}}),
      UserError);
}

TEST(Element, MovesEveryType) {
  for (const DType type : all_numbers()) {
    const HostTensor x = tensor_from(type, {3}, {5, 6, 7});
    const HostTensor at = tensor_from(DType::kI64, {2}, {2, 0});
    EXPECT_EQ(of_two("gather", x, at), (Numbers{7, 5})) << name(type);
    EXPECT_EQ(of_two("concat", x, x, {{"axis", 0}}), (Numbers{5, 6, 7, 5, 6, 7})) << name(type);
    EXPECT_EQ(of_one("slice", x, {{"starts", Ints{2}}, {"ends", Ints{-4}}, {"axes", Ints{0}}, {"steps", Ints{-1}}}),
              (Numbers{7, 6, 5}));
    for (const auto& [how, want] : std::vector<std::pair<std::string, Numbers>>{
             {"none", {2, 6, 9}}, {"add", {7, 6, 16}}, {"mul", {10, 6, 63}}, {"max", {5, 6, 9}}, {"min", {2, 6, 7}}}) {
      const HostTensor updates = tensor_from(type, {2}, {9, 2});
      const auto out = run_op({.op = "scatter_elements",
                               .inputs = {x.type, at.type, updates.type},
                               .attrs = {{"reduction", how}},
                               .given = {{0, x}, {1, at}, {2, updates}}});
      EXPECT_EQ(numbers_of(out[0]), want) << name(type) << how;
    }
    const HostTensor flags = tensor_from(DType::kBool, {3}, {1, 0, 1});
    const HostTensor zero = tensor_from(type, {}, {0});
    const auto chosen =
        run_op({.op = "where", .inputs = {flags.type, x.type, zero.type}, .given = {{0, flags}, {1, x}, {2, zero}}});
    EXPECT_EQ(numbers_of(chosen[0]), (Numbers{5, 0, 7})) << name(type);
  }
}

}  // namespace
}  // namespace neap
