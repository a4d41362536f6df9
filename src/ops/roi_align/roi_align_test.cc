#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

HostTensor ramp(const Shape& shape) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.count(); ++i) values.push_back(static_cast<float>(i));
  return tensor_of(shape, values);
}

std::vector<float> run(const HostTensor& rois, const Attrs& attrs, double image = 0) {
  const HostTensor x = ramp({1, 4, 4, 1});  // x[i][j] = 4 i + j
  const HostTensor batch = tensor_from(DType::kI64, {rois.type.shape.size(0)}, {image});
  return values_of(run_op({.op = "roi_align",
                           .inputs = {x.type, rois.type, batch.type},
                           .attrs = attrs,
                           .given = {{0, x}, {1, rois}, {2, batch}}})[0]);
}

// On a plane the average of a bin is the plane at its middle.
TEST(RoiAlign, AveragesOfAPlane) {
  const Attrs attrs{{"output_height", 2}, {"output_width", 2}, {"sampling_ratio", 2}};
  const HostTensor roi = tensor_of({1, 4}, {1, 1, 3, 3});
  EXPECT_EQ(run(roi, attrs), (std::vector<float>{5, 6, 9, 10}));
  Attrs shifted = attrs;
  shifted.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  EXPECT_EQ(run(roi, shifted), (std::vector<float>{7.5F, 8.5F, 11.5F, 12.5F}));
  Attrs scaled = attrs;
  scaled.set("spatial_scale", 0.5);
  scaled.set("sampling_ratio", 0);
  EXPECT_EQ(run(tensor_of({1, 4}, {2, 2, 6, 6}), scaled), (std::vector<float>{5, 6, 9, 10}));
}

TEST(RoiAlign, MaximumOfTheWeightedCorners) {
  const Attrs attrs{{"mode", std::string("max")}, {"sampling_ratio", 1}};
  EXPECT_EQ(run(tensor_of({1, 4}, {1, 1, 3, 3}), attrs), (std::vector<float>{2.5F}));  // a quarter of 10
}

TEST(RoiAlign, EveryKernelGivesTheSame) {
  for (const char* mode : {"avg", "max"}) {
    for (const char* how : {"half_pixel", "output_half_pixel"}) {
      for (const std::int64_t ratio : {0, 3}) {
        OpCase c{.op = "roi_align",
                 .inputs = {{DType::kF32, {3, 6, 7, 5}}, {DType::kF32, {9, 4}}, {DType::kI64, {9}}},
                 .attrs = {{"mode", std::string(mode)},
                           {"coordinate_transformation_mode", std::string(how)},
                           {"output_height", 3},
                           {"output_width", 2},
                           {"sampling_ratio", ratio},
                           {"spatial_scale", 0.5}}};
        c.given[1] = random_tensor(c.inputs[1], 5, -4, 18);
        check_kernels(c);
      }
    }
  }
}

TEST(RoiAlign, RefusesWhatDoesNotFit) {
  const HostTensor roi = tensor_of({1, 4}, {1, 1, 3, 3});
  EXPECT_THROW(run(roi, {}, 1), UserError);
  EXPECT_THROW(run(roi, {{"mode", std::string("min")}}), UserError);
  EXPECT_THROW(run(roi, {{"output_height", 0}}), UserError);
  EXPECT_THROW(run(tensor_of({1, 3}, {1, 1, 3}), {}), UserError);
}

}  // namespace
}  // namespace neap
