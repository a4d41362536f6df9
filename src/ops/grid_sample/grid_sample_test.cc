#include <cmath>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

std::vector<float> run(const std::vector<float>& points, const Attrs& attrs) {
  const HostTensor x = tensor_of({1, 3, 2, 1}, {0, 1, 2, 3, 4, 5});
  const auto n = static_cast<std::int64_t>(points.size() / 2);
  const HostTensor grid = tensor_of({1, 1, n, 2}, points);
  return values_of(
      run_op({.op = "grid_sample", .inputs = {x.type, grid.type}, .attrs = attrs, .given = {{0, x}, {1, grid}}})[0]);
}

Attrs of(const std::string& mode, const std::string& padding, std::int64_t align) {
  return {{"mode", mode}, {"padding_mode", padding}, {"align_corners", align}};
}

// Points inside, on the edge, beyond it. The expected numbers are those of ONNX's own examples.
const std::vector<float> kPoints = {-10, -10, -5, -5, -0.2F, -0.2F, 10, 10, 10, 10, -0.2F, -0.2F, 5, 5, 10, 10};

TEST(GridSample, PaddingAsInOnnx) {
  const auto near = [](const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
  };
  near(run(kPoints, of("linear", "zeros", 0)), {0, 0, 1.7F, 0, 0, 1.7F, 0, 0});
  near(run(kPoints, of("linear", "border", 0)), {0, 0, 1.7F, 5, 5, 1.7F, 5, 5});
  near(run(kPoints, of("linear", "reflection", 0)), {2.5F, 0, 1.7F, 2.5F, 2.5F, 1.7F, 5, 2.5F});
  near(run({-1, -1, -0.5F, -0.5F, -0.2F, -0.2F, 0, 0, 0, 0, -0.2F, -0.2F, 0.5F, 0.5F, 1, 1}, of("linear", "zeros", 1)),
       {0, 1.25F, 2, 2.5F, 2.5F, 2, 3.75F, 5});
  near(run({-1, -1, -0.5F, -0.5F, -0.2F, -0.2F, 0, 0, 0, 0, -0.2F, -0.2F, 0.5F, 0.5F, 1, 1}, of("nearest", "zeros", 0)),
       {0, 0, 2, 2, 2, 2, 5, 0});
  near(run({-1, -1, -0.5F, -0.5F, -0.2F, -0.2F, 0, 0, 0, 0, -0.2F, -0.2F, 0.5F, 0.5F, 1, 1}, of("cubic", "zeros", 0)),
       {-0.1406F, 0.3828F, 1.7556F, 2.9688F, 2.9688F, 1.7556F, 5.1445F, 1.3906F});
}

TEST(GridSample, GradientOfTheInput) {
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align : {0, 1}) {
        check_op({.op = "grid_sample",
                  .inputs = {{DType::kF32, {2, 3, 4, 2}}, {DType::kF32, {2, 3, 3, 2}}},
                  .attrs = of(mode, padding, align),
                  .low = -1.4,
                  .high = 1.4,
                  .constant = {1}});
        check_op({.op = "grid_sample",
                  .inputs = {{DType::kF32, {2, 2, 3, 4, 2}}, {DType::kF32, {2, 1, 3, 3, 3}}},
                  .attrs = of(mode, padding, align),
                  .low = -1.4,
                  .high = 1.4,
                  .constant = {1}});
      }
    }
  }
}

// So many points in a pixel that a warp, and then a block, has to put them in order.
TEST(GridSample, GradientOfCrowdedPixels) {
  for (const char* padding : {"zeros", "border"}) {
    for (const std::int64_t points : {9, 31}) {
      check_op({.op = "grid_sample",
                .inputs = {{DType::kF32, {2, 2, 2, 3}}, {DType::kF32, {2, points, points, 2}}},
                .attrs = of("linear", padding, 0),
                .low = -3,
                .high = 3,
                .tolerance = 1e-6,
                .constant = {1}});
    }
  }
}

TEST(GridSample, PointsThatAreNoNumbersHitNothing) {
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const float v : run({NAN, 0, 0, NAN}, of(mode, padding, 0))) EXPECT_EQ(v, 0);
      run({INFINITY, 0, 0, -INFINITY}, of(mode, padding, 1));
    }
  }
}

TEST(GridSample, RefusesWhatDoesNotFit) {
  const auto bad = [](const Shape& x, const Shape& grid, const Attrs& attrs = {}) {
    run_op({.op = "grid_sample", .inputs = {{DType::kF32, x}, {DType::kF32, grid}}, .attrs = attrs});
  };
  EXPECT_THROW(bad({1, 3, 3, 1}, {1, 2, 2, 3}), UserError);
  EXPECT_THROW(bad({1, 3, 3, 1}, {2, 2, 2, 2}), UserError);
  EXPECT_THROW(bad({1, 3, 1}, {1, 2, 1}), UserError);
  EXPECT_THROW(bad({1, 3, 3, 1}, {1, 2, 2, 2}, {{"mode", std::string("best")}}), UserError);
  OpCase c{.op = "grid_sample", .inputs = {{DType::kF32, {1, 3, 3, 1}}, {DType::kF32, {1, 2, 2, 2}}}};
  EXPECT_THROW(check_gradient(c), UserError);
}

}  // namespace
}  // namespace neap
