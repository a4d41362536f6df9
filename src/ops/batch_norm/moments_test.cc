#include <gtest/gtest.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

const Shape kShapes[] = {{2, 3, 5, 16}, {7, 33}, {3, 70, 5}, {1, 9, 15, 130}, {1, 8, 8, 8}};

TEST(Moments, KernelsAgree) {
  for (const Shape& shape : kShapes) {
    const TensorType channels = f32({shape[-1]});
    check_kernels({.op = "moments", .inputs = {f32(shape)}, .tolerance = 1e-4});
    check_kernels({.op = "moments_grad", .inputs = {f32(shape), channels, channels, channels, f32(shape)}});
    check_kernels(
        {.op = "moments_grad", .inputs = {f32(shape), channels, channels, channels, f32(shape)}, .absent = {4}});
    check_kernels(
        {.op = "moments_grad", .inputs = {f32(shape), channels, channels, channels, f32(shape)}, .absent = {2}});
    check_kernels(
        {.op = "moments_grad", .inputs = {f32(shape), channels, channels, channels, f32(shape)}, .absent = {3}});
  }
}

OpCase merge_case(std::int64_t parts, std::int64_t channels) {
  return {.op = "merge_moments",
          .inputs = std::vector<TensorType>(static_cast<std::size_t>(2 * parts), f32({channels})),
          .attrs = {{"rows", std::int64_t{6}}},
          .low = 0.5,
          .high = 1.5};
}

// Of one part, of a few, and of more than a GPU's launch takes addresses.
TEST(Moments, MergesAgree) {
  for (const std::int64_t parts : {1, 4, 64, 65, 150}) {
    for (const std::int64_t channels : {3, 200}) {
      check_kernels(merge_case(parts, channels));
      OpCase grad{.op = "merge_moments_grad",
                  .inputs = std::vector<TensorType>(static_cast<std::size_t>(4 + parts), f32({channels})),
                  .attrs = {{"rows", std::int64_t{6}}}};
      check_kernels(grad);
      grad.absent = {0};
      check_kernels(grad);
      grad.absent = {1};
      check_kernels(grad);
    }
  }
  const TensorType channels = f32({130});
  check_kernels(
      {.op = "batch_norm_stats_grad", .inputs = {channels, channels, channels, channels}, .low = 0.5, .high = 1.5});
}

TEST(Moments, GradientsAreRight) {
  check_gradient({.op = "moments", .inputs = {f32({6, 5})}, .flows = {0, 1}});
  check_gradient({.op = "moments", .inputs = {f32({2, 3, 4})}, .flows = {1}});
  const TensorType c = f32({3});
  check_gradient({.op = "merge_moments",
                  .inputs = {c, c, c, c, c, c},
                  .attrs = {{"rows", std::int64_t{2}}},
                  .low = 0.5,
                  .high = 1.5,
                  .step = 1e-3,
                  .flows = {0, 1}});
}

// Parts of a batch, merged, are the whole: with means far apart, far from zero, and a single part.
TEST(Moments, MergedPartsAreTheWhole) {
  constexpr std::int64_t kParts = 4;
  constexpr std::int64_t kRows = 50;
  constexpr std::int64_t kChannels = 19;
  const TensorType channels = f32({kChannels});
  HostTensor x = random_tensor(f32({kParts * kRows, kChannels}), 3, -2, 2);
  for (std::int64_t i = 0; i < x.type.elements(); ++i) {
    const auto part = i / (kRows * kChannels);
    x.floats()[i] += 10 * static_cast<float>(part);
  }
  const auto want = run_op({.op = "batch_stats", .inputs = {x.type}, .given = {{0, x}}});
  OpCase merge{.op = "merge_moments", .inputs = {}, .attrs = {{"rows", kRows}}};
  for (std::int64_t p = 0; p < kParts; ++p) {
    HostTensor part = random_tensor(f32({kRows, kChannels}), 4);
    std::copy_n(x.floats() + p * kRows * kChannels, kRows * kChannels, part.floats());
    const auto moments = run_op({.op = "moments", .inputs = {part.type}, .given = {{0, part}}});
    for (const HostTensor& each : moments) {
      merge.given.emplace(merge.inputs.size(), each);
      merge.inputs.push_back(channels);
    }
  }
  const auto got = run_op(merge);
  for (std::size_t i = 0; i < want.size(); ++i) expect_same(got[i], want[i], 2e-6, "output " + std::to_string(i));
}

TEST(Moments, RefusesWhatDoesNotFit) {
  const TensorType c = f32({3});
  EXPECT_THROW(run_op({.op = "moments", .inputs = {c}}), UserError);
  EXPECT_THROW(run_op({.op = "merge_moments", .inputs = {c, c, c}, .attrs = {{"rows", std::int64_t{2}}}}), UserError);
  EXPECT_THROW(run_op({.op = "merge_moments", .inputs = {c, f32({4})}, .attrs = {{"rows", std::int64_t{2}}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "merge_moments", .inputs = {c, c}, .attrs = {{"rows", std::int64_t{0}}}}), UserError);
}

}  // namespace
}  // namespace neap
