#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

template <class T>
HostTensor tensor(DType dtype, Shape shape, std::initializer_list<T> values) {
  HostTensor t({dtype, std::move(shape)});
  std::copy(values.begin(), values.end(), t.as<T>());
  return t;
}

HostTensor indices(Shape shape, std::initializer_list<std::int64_t> values) {
  return tensor<std::int64_t>(DType::kI64, std::move(shape), values);
}

std::vector<float> floats(const HostTensor& t) { return {t.floats(), t.floats() + t.type.elements()}; }

TEST(ScatterElements, GradientHolds) {
  const HostTensor distinct = indices({2, 3}, {0, 2, -1, 1, 0, 0});
  for (const char* reduction : {"none", "add"}) {
    check_op({.op = "scatter_elements",
              .inputs = {f32({3, 4}), distinct.type, f32({2, 3})},
              .attrs = {{"reduction", std::string(reduction)}},
              .given = {{1, distinct}}});
  }
  check_op({.op = "scatter_elements",
            .inputs = {f32({3, 4}), {DType::kI32, {3, 6}}, f32({3, 6})},
            .attrs = {{"reduction", std::string("add")}, {"axis", std::int64_t{1}}}});
}

TEST(ScatterElements, KnownValues) {
  const HostTensor data = tensor<float>(DType::kF32, {4}, {1, 2, 3, 4});
  const HostTensor index = indices({3}, {1, 1, -1});
  const HostTensor updates = tensor<float>(DType::kF32, {3}, {5, -6, 7});
  const auto run = [&](const char* reduction) {
    return floats(run_op({.op = "scatter_elements",
                          .inputs = {data.type, index.type, updates.type},
                          .attrs = {{"reduction", std::string(reduction)}},
                          .given = {{0, data}, {1, index}, {2, updates}}})[0]);
  };
  EXPECT_EQ(run("none"), (std::vector<float>{1, -6, 3, 7}));
  EXPECT_EQ(run("add"), (std::vector<float>{1, 1, 3, 11}));
  EXPECT_EQ(run("mul"), (std::vector<float>{1, -60, 3, 28}));
  EXPECT_EQ(run("max"), (std::vector<float>{1, 5, 3, 7}));
  EXPECT_EQ(run("min"), (std::vector<float>{1, -6, 3, 4}));
}

TEST(ScatterElements, WithoutUpdatesClears) {
  const HostTensor data = tensor<float>(DType::kF32, {4}, {1, 2, 3, 4});
  const HostTensor index = indices({2}, {0, 3});
  const auto out =
      run_op({.op = "scatter_elements", .inputs = {data.type, index.type}, .given = {{0, data}, {1, index}}});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{0, 2, 3, 0}));
}

TEST(ScatterNd, GradientHolds) {
  const HostTensor index = indices({3, 1}, {2, 0, -3});
  for (const char* reduction : {"none", "add"}) {
    check_op({.op = "scatter_nd",
              .inputs = {f32({4, 5}), index.type, f32({3, 5})},
              .attrs = {{"reduction", std::string(reduction)}},
              .given = {{1, index}}});
  }
  check_op({.op = "scatter_nd",
            .inputs = {f32({3, 4, 2}), {DType::kI32, {2, 2, 2}}, f32({2, 2, 2})},
            .attrs = {{"reduction", std::string("add")}}});
}

// Several updates to one place, in their order.
TEST(ScatterNd, EveryReduction) {
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    const Attrs attrs{{"reduction", std::string(reduction)}};
    for (const DType type : {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kU8, DType::kI8, DType::kF16}) {
      check_kernels(
          {.op = "scatter_nd", .inputs = {{type, {3, 5, 2}}, {DType::kI32, {9, 2}}, {type, {9, 2}}}, .attrs = attrs});
    }
    check_kernels(
        {.op = "scatter_nd", .inputs = {f32({4, 7}), {DType::kI64, {900, 1}}, f32({900, 7})}, .attrs = attrs});
  }
}

TEST(ScatterNd, WithoutUpdatesClears) {
  const HostTensor data = tensor<float>(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const HostTensor index = indices({1, 1}, {-2});
  const OpCase c = {.op = "scatter_nd", .inputs = {data.type, index.type}, .given = {{0, data}, {1, index}}};
  EXPECT_EQ(floats(run_op(c)[0]), (std::vector<float>{0, 0, 3, 4}));
  check_kernels(c);
  check_kernels({.op = "scatter_nd", .inputs = {{DType::kBool, {3, 4}}, {DType::kI32, {2, 2}}}});
}

TEST(ScatterNd, KnownValuesOfIntegers) {
  const HostTensor data = tensor<std::int32_t>(DType::kI32, {2, 2}, {1, 2, 3, 4});
  const HostTensor index = indices({2, 2}, {0, 1, 1, 0});
  const HostTensor updates = tensor<std::int32_t>(DType::kI32, {2}, {10, 20});
  auto out = run_op({.op = "scatter_nd",
                     .inputs = {data.type, index.type, updates.type},
                     .attrs = {{"reduction", std::string("add")}},
                     .given = {{0, data}, {1, index}, {2, updates}}});
  const std::int32_t* got = out[0].as<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(got, got + 4), (std::vector<std::int32_t>{1, 12, 23, 4}));
}

TEST(Scatter, RefusesWhatDoesNotFit) {
  const HostTensor far = indices({1}, {4});
  EXPECT_THROW(run_op({.op = "scatter_elements", .inputs = {f32({4}), far.type, f32({1})}, .given = {{1, far}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "scatter_nd", .inputs = {f32({4}), far.type, f32({})}, .given = {{1, far}}}), UserError);
  EXPECT_THROW(run_op({.op = "scatter_elements", .inputs = {f32({4}), far.type, f32({2})}}), UserError);
  EXPECT_THROW(run_op({.op = "scatter_elements", .inputs = {f32({4}), far.type, {DType::kI32, {1}}}}), UserError);
  EXPECT_THROW(
      run_op({.op = "scatter_elements", .inputs = {f32({4}), far.type}, .attrs = {{"reduction", std::string("add")}}}),
      UserError);
  EXPECT_THROW(run_op({.op = "scatter_elements",
                       .inputs = {f32({4}), far.type, f32({1})},
                       .attrs = {{"reduction", std::string("xor")}}}),
               UserError);
}

}  // namespace
}  // namespace neap
