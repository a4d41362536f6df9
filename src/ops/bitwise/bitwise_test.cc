#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

Numbers run(const std::string& op, DType type, const Numbers& a, const Numbers& b, const Attrs& attrs = {}) {
  const auto n = static_cast<std::int64_t>(a.size());
  const HostTensor x = tensor_from(type, {n}, a);
  const HostTensor y = tensor_from(type, {static_cast<std::int64_t>(b.size())}, b);
  return numbers_of(run_op({.op = op, .inputs = {x.type, y.type}, .attrs = attrs, .given = {{0, x}, {1, y}}})[0]);
}

TEST(Bitwise, OfEveryInteger) {
  for (const DType type :
       {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    EXPECT_EQ(run("bitwise_and", type, {12, 10}, {10}), (Numbers{8, 10})) << name(type);
    EXPECT_EQ(run("bitwise_or", type, {12, 10}, {10}), (Numbers{14, 10})) << name(type);
    EXPECT_EQ(run("bitwise_xor", type, {12, 10}, {10}), (Numbers{6, 0})) << name(type);
    EXPECT_EQ(run("bit_shift", type, {12, 1}, {2, 3}, {{"direction", std::string("left")}}), (Numbers{48, 8}));
    EXPECT_EQ(run("bit_shift", type, {12, 1}, {2, 100}, {{"direction", std::string("right")}}), (Numbers{3, 0}));
  }
  EXPECT_EQ(run("bit_shift", DType::kU8, {255}, {1}, {{"direction", std::string("left")}}), (Numbers{254}));
  EXPECT_EQ(run("bit_shift", DType::kI8, {-4, -4}, {1, 9}, {{"direction", std::string("right")}}), (Numbers{-2, -1}));
}

TEST(Bitwise, Not) {
  const auto flipped = [](DType type, const Numbers& a) {
    const HostTensor x = tensor_from(type, {static_cast<std::int64_t>(a.size())}, a);
    return numbers_of(run_op({.op = "bitwise_not", .inputs = {x.type}, .given = {{0, x}}})[0]);
  };
  EXPECT_EQ(flipped(DType::kU8, {0, 255, 5}), (Numbers{255, 0, 250}));
  EXPECT_EQ(flipped(DType::kI32, {0, -1, 5}), (Numbers{-1, 0, -6}));
}

TEST(Bitwise, KernelsAgree) {
  for (const DType type :
       {DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8}) {
    const TensorType whole{type, {3, 1, 37}};
    const TensorType part{type, {5, 1}};
    for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor"}) {
      check_kernels({.op = op, .inputs = {whole, whole}, .integer_bound = 128});
      check_kernels({.op = op, .inputs = {whole, part}, .integer_bound = 128});
    }
    check_kernels({.op = "bitwise_not", .inputs = {whole}, .integer_bound = 128});
    for (const char* direction : {"left", "right"}) {
      const Attrs attrs{{"direction", std::string(direction)}};
      check_kernels({.op = "bit_shift", .inputs = {whole, whole}, .attrs = attrs, .integer_bound = 70});
      check_kernels(
          {.op = "bit_shift",
           .inputs = {{type, {3, 1, 1}}, {type, {4}}},
           .attrs = attrs,
           .given = {{0, tensor_from(type, {3, 1, 1}, {-5, 100, 0})}, {1, tensor_from(type, {4}, {-1, 0, 3, 9})}}});
    }
  }
}

TEST(Bitwise, InPlaceAndRefusals) {
  check_in_place({.op = "bitwise_xor", .inputs = {{DType::kI32, {5}}, {DType::kI32, {5}}}});
  EXPECT_THROW(run("bitwise_and", DType::kF32, {1}, {1}), UserError);
  EXPECT_THROW(run("bitwise_and", DType::kBool, {1}, {1}), UserError);
  EXPECT_THROW(run("bit_shift", DType::kU8, {1}, {1}), UserError);
}

}  // namespace
}  // namespace neap
