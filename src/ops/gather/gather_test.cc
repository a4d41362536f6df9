#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

HostTensor indices(Shape shape, std::initializer_list<std::int64_t> values) {
  HostTensor t({DType::kI64, std::move(shape)});
  std::copy(values.begin(), values.end(), t.as<std::int64_t>());
  return t;
}

std::vector<float> floats(const HostTensor& t) { return {t.floats(), t.floats() + t.type.elements()}; }

HostTensor counting(Shape shape) {
  HostTensor t(f32(std::move(shape)));
  for (std::int64_t i = 0; i < t.type.elements(); ++i) t.floats()[i] = static_cast<float>(i);
  return t;
}

TEST(Gather, EveryAxis) {
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    for (const Shape& index : {Shape{}, Shape{1}, Shape{5}, Shape{2, 3}}) {
      check_op({.op = "gather", .inputs = {f32({3, 4, 5}), i32(index)}, .attrs = {{"axis", axis}}});
    }
  }
  check_op({.op = "gather", .inputs = {f32({3, 4, 37}), i32({9})}, .attrs = {{"axis", std::int64_t{1}}}});
}

TEST(Gather, MovesAnyType) {
  check_kernels({.op = "gather", .inputs = {{DType::kU8, {3, 7}}, i32({4})}});
  check_kernels({.op = "gather", .inputs = {{DType::kI64, {3, 7}}, i32({4})}});
  check_kernels({.op = "gather", .inputs = {{DType::kBF16, {3, 7}}, i32({4})}});
  EXPECT_THROW(run_op({.op = "gather", .inputs = {{DType::kBits, {3, 8}}, i32({4})}}), UserError);
}

TEST(Gather, NegativeIndicesCountFromTheEnd) {
  const HostTensor index = indices({2}, {-1, -3});
  const HostTensor data = counting({3, 2});
  const auto out = run_op({.op = "gather", .inputs = {data.type, index.type}, .given = {{0, data}, {1, index}}});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{4, 5, 0, 1}));
  check_op({.op = "gather", .inputs = {data.type, index.type}, .given = {{1, index}}});
}

TEST(Gather, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  for (const Shape& shape : {Shape{5, 7, 3}, Shape{1, 7, 50}}) {
    const OpCase c = {.op = "gather_grad",
                      .inputs = {i32({40}), f32({shape[0], 40, shape[2]})},
                      .attrs = {{"shape", shape}, {"axis", std::int64_t{1}}},
                      .integer_bound = 7};
    check_kernels(c);
    omp_set_num_threads(1);
    const auto one = run_op(c);
    omp_set_num_threads(3);
    const auto three = run_op(c);
    omp_set_num_threads(threads);
    EXPECT_EQ(one[0].data, three[0].data);
  }
}

TEST(Gather, RefusesBadIndices) {
  for (const std::int64_t bad : {3, -4}) {
    const HostTensor index = indices({1}, {bad});
    EXPECT_THROW(run_op({.op = "gather", .inputs = {f32({3, 2}), index.type}, .given = {{1, index}}}), UserError);
    EXPECT_THROW(run_op({.op = "gather_elements", .inputs = {f32({3}), index.type}, .given = {{1, index}}}), UserError);
    EXPECT_THROW(run_op({.op = "gather_nd", .inputs = {f32({3}), index.type}, .given = {{1, index}}}), UserError);
  }
  EXPECT_THROW(run_op({.op = "gather", .inputs = {f32({3}), f32({1})}}), UserError);
  EXPECT_THROW(run_op({.op = "gather", .inputs = {f32({3}), i32({1})}, .attrs = {{"axis", std::int64_t{1}}}}),
               UserError);
}

TEST(GatherElements, GradientHolds) {
  for (const std::int64_t axis : {0, 1, -1}) {
    check_op({.op = "gather_elements", .inputs = {f32({3, 4}), i32({3, 4})}, .attrs = {{"axis", axis}}});
  }
  check_op({.op = "gather_elements", .inputs = {f32({3, 4, 5}), i32({2, 9, 5})}, .attrs = {{"axis", std::int64_t{1}}}});
}

TEST(GatherElements, KnownValues) {
  const HostTensor data = counting({2, 2});
  const HostTensor index = indices({2, 2}, {0, 0, 1, -2});
  const auto out = run_op({.op = "gather_elements",
                           .inputs = {data.type, index.type},
                           .attrs = {{"axis", std::int64_t{1}}},
                           .given = {{0, data}, {1, index}}});
  EXPECT_EQ(floats(out[0]), (std::vector<float>{0, 0, 3, 2}));
}

TEST(GatherElements, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "gather_elements", .inputs = {f32({3, 4}), i32({3})}}), UserError);
  EXPECT_THROW(run_op({.op = "gather_elements", .inputs = {f32({3, 4}), i32({3, 5})}}), UserError);
}

TEST(GatherNd, GradientHolds) {
  check_op({.op = "gather_nd", .inputs = {f32({3, 4, 5}), i32({7, 2})}});
  check_op({.op = "gather_nd", .inputs = {f32({3, 4}), i32({2, 2, 2})}});
  check_op({.op = "gather_nd", .inputs = {f32({3, 4}), i32({2})}});
  check_op({.op = "gather_nd", .inputs = {f32({2, 3, 4}), i32({2, 5, 1})}, .attrs = {{"batch_dims", std::int64_t{1}}}});
}

// More entries for one slice than are put in order at once.
TEST(GatherNd, ManyEntriesForOneSlice) {
  check_op({.op = "gather_nd", .inputs = {f32({3, 5}), i32({1000, 1})}});
  check_op({.op = "gather_nd", .inputs = {f32({3, 2}), i32({700, 2})}, .integer_bound = 2});
  check_kernels({.op = "gather_nd_grad", .inputs = {i32({0, 1}), f32({0, 5})}, .attrs = {{"shape", Shape{3, 5}}}});
}

TEST(GatherNd, KnownValues) {
  const HostTensor data = counting({2, 2, 2});
  const HostTensor index = indices({2, 1}, {1, 0});
  const OpCase c = {.op = "gather_nd",
                    .inputs = {data.type, index.type},
                    .attrs = {{"batch_dims", std::int64_t{1}}},
                    .given = {{0, data}, {1, index}}};
  EXPECT_EQ(floats(run_op(c)[0]), (std::vector<float>{2, 3, 4, 5}));
}

TEST(GatherNd, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "gather_nd", .inputs = {f32({3, 4}), i32({2, 3})}}), UserError);
  EXPECT_THROW(run_op({.op = "gather_nd", .inputs = {f32({3, 4}), i32({})}}), UserError);
  EXPECT_THROW(
      run_op({.op = "gather_nd", .inputs = {f32({3, 4}), i32({2, 1})}, .attrs = {{"batch_dims", std::int64_t{1}}}}),
      UserError);
}

}  // namespace
}  // namespace neap
