#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

std::vector<double> eye(const std::string& type, std::int64_t k) {
  return numbers_of(
      run_op({.op = "eye", .inputs = {}, .attrs = {{"shape", Shape{2, 3}}, {"k", k}, {"dtype", type}}})[0]);
}

TEST(Eye, DiagonalsOfEveryType) {
  for (const char* type : {"f32", "i64", "f16", "bool", "u8", "f64"}) {
    EXPECT_EQ(eye(type, 0), (std::vector<double>{1, 0, 0, 0, 1, 0}));
    EXPECT_EQ(eye(type, 2), (std::vector<double>{0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(eye(type, -1), (std::vector<double>{0, 0, 0, 1, 0, 0}));
    EXPECT_EQ(eye(type, 3), std::vector<double>(6, 0));
    EXPECT_EQ(eye(type, -9), std::vector<double>(6, 0));
  }
  for (const char* type : {"f32", "i64", "f16", "bf16", "bool", "i16", "f64"}) {
    for (const std::int64_t k : {std::int64_t{0}, std::int64_t{3}, std::int64_t{-7}, INT64_MAX, INT64_MIN}) {
      check_kernels(
          {.op = "eye", .inputs = {}, .attrs = {{"shape", Shape{9, 13}}, {"k", k}, {"dtype", std::string(type)}}});
    }
  }
  check_kernels({.op = "eye", .inputs = {}, .attrs = {{"shape", Shape{0, 4}}}});
  EXPECT_THROW(eye("bits", 0), UserError);
  EXPECT_THROW(run_op({.op = "eye", .inputs = {}, .attrs = {{"shape", Shape{2}}}}), UserError);
}

}  // namespace
}  // namespace neap
