#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Argmax, KernelsAgree) {
  for (const char* op : {"argmax", "argmin"}) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 50}, Shape{33, 10}, Shape{3, 9, 141}, Shape{50, 1000}}) {
      for (std::int64_t axis = -1; axis < shape.rank(); ++axis) {
        const OpCase c{.op = op, .inputs = {{DType::kF32, shape}}, .attrs = {{"axis", axis}}};
        check_kernels(c);
        check_threads(c);
      }
    }
  }
}

TEST(Argmax, FirstOfEqualsAndNanBeforeAll) {
  const auto where = [](const std::string& op, const std::vector<float>& x) {
    const Shape row = {1, static_cast<std::int64_t>(x.size())};
    const Shape column = {static_cast<std::int64_t>(x.size()), 2};  // beside a column of zeros
    std::vector<float> beside;
    for (const float value : x) beside.insert(beside.end(), {value, 0.0F});
    std::int64_t at = -1;
    for (const char* kernel : {"simd", "ref"}) {
      auto out =
          run_op({.op = op, .inputs = {{DType::kF32, row}}, .attrs = {{"axis", 1}}, .given = {{0, tensor_of(row, x)}}},
                 kernel);
      auto again = run_op({.op = op,
                           .inputs = {{DType::kF32, column}},
                           .attrs = {{"axis", 0}},
                           .given = {{0, tensor_of(column, beside)}}},
                          kernel);
      EXPECT_EQ(out[0].as<std::int64_t>()[0], again[0].as<std::int64_t>()[0]);
      EXPECT_TRUE(at < 0 || at == out[0].as<std::int64_t>()[0]);
      at = out[0].as<std::int64_t>()[0];
    }
    return at;
  };
  EXPECT_EQ(where("argmax", {1, 3, 3, 2}), 1);
  EXPECT_EQ(where("argmin", {2, 1, 3, 1}), 1);
  EXPECT_EQ(where("argmax", {1, kInf, kNan, 2}), 2);
  EXPECT_EQ(where("argmin", {1, -kInf, kNan, 2}), 2);
  EXPECT_EQ(where("argmax", {-kInf, -kInf}), 0);
  EXPECT_EQ(where("argmin", {kInf, kInf}), 0);
  EXPECT_EQ(where("argmax", {-0.0F, 0.0F}), 0);
}

TEST(Argmax, ShapesAndRefusals) {
  const auto shape = [](Attrs attrs) {
    return run_op({.op = "argmax", .inputs = {{DType::kF32, {2, 3}}}, .attrs = std::move(attrs)})[0].type.text();
  };
  EXPECT_EQ(shape({{"axis", 1}}), "i64[2,1]");
  EXPECT_EQ(shape({{"axis", 0}, {"keepdims", 0}}), "i64[3]");
  EXPECT_THROW(shape({{"axis", 2}}), UserError);
  EXPECT_THROW(run_op({.op = "argmax", .inputs = {{DType::kBool, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "argmax", .inputs = {{DType::kF32, {3, 0}}}, .attrs = {{"axis", 1}}}), UserError);
}

}  // namespace
}  // namespace neap
