#include <omp.h>

#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

TEST(Embedding, KernelsAgreeAndGradientHolds) {
  for (const DType type : {DType::kI32, DType::kI64}) {
    check_op({.op = "embedding", .inputs = {f32({3, 5}), {type, {2, 4}}}});
    check_op({.op = "embedding", .inputs = {f32({9, 40}), {type, {30}}}, .integer_bound = 9});
    check_op({.op = "embedding", .inputs = {f32({3, 1}), {type, {}}}});
  }
}

TEST(Embedding, GradientKernelsAgree) {
  for (const std::int64_t depth : {1, 15, 16, 33, 384}) {
    check_kernels({.op = "embedding_grad",
                   .inputs = {{DType::kI32, {50}}, f32({50, depth})},
                   .attrs = {{"shape", Shape{7, depth}}},
                   .integer_bound = 7});
  }
}

TEST(Embedding, BitsDoNotDependOnThreads) {
  const int threads = omp_get_max_threads();
  const OpCase c = {.op = "embedding_grad",
                    .inputs = {{DType::kI32, {500}}, f32({500, 70})},
                    .attrs = {{"shape", Shape{11, 70}}},
                    .integer_bound = 11};
  omp_set_num_threads(1);
  const auto one = run_op(c);
  omp_set_num_threads(3);
  const auto three = run_op(c);
  omp_set_num_threads(threads);
  EXPECT_EQ(one[0].data, three[0].data);
}

TEST(Embedding, NoIds) {
  check_kernels({.op = "embedding", .inputs = {f32({3, 5}), {DType::kI32, {0}}}});
  check_kernels(
      {.op = "embedding_grad", .inputs = {{DType::kI32, {0}}, f32({0, 5})}, .attrs = {{"shape", Shape{3, 5}}}});
}

TEST(Embedding, RefusesIdsOutOfRange) {
  for (const std::int32_t bad : {3, -1, 1 << 30}) {
    HostTensor ids({DType::kI32, {2}});
    ids.as<std::int32_t>()[1] = bad;
    for (const char* kernel : {"simd", "ref"}) {
      EXPECT_THROW(run_op({.op = "embedding", .inputs = {f32({3, 5}), ids.type}, .given = {{1, ids}}}, kernel),
                   UserError);
      EXPECT_THROW(run_op({.op = "embedding_grad",
                           .inputs = {ids.type, f32({2, 5})},
                           .attrs = {{"shape", Shape{3, 5}}},
                           .given = {{0, ids}}},
                          kernel),
                   UserError);
    }
  }
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "embedding", .inputs = {f32({3}), {DType::kI32, {2}}}}), UserError);
  EXPECT_THROW(run_op({.op = "embedding", .inputs = {f32({3, 5}), f32({2})}}), UserError);
  EXPECT_THROW(
      run_op({.op = "embedding_grad", .inputs = {{DType::kI32, {2}}, f32({3, 5})}, .attrs = {{"shape", Shape{3, 5}}}}),
      UserError);
}

}  // namespace
}  // namespace neap
