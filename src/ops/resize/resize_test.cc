#include "ops/resize/resize.h"

#include "ops/elementwise/element_testing.h"
#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

using Reals = std::vector<double>;

// The last two axes of x by these attributes.
std::vector<float> resized(const HostTensor& x, Attrs attrs) {
  attrs.set("axes", Ints{-2, -1});
  return values_of(run_op({.op = "resize", .inputs = {x.type}, .attrs = attrs, .given = {{0, x}}})[0]);
}

Attrs of_mode(const std::string& mode, const std::string& how = "half_pixel") {
  return {{"mode", mode}, {"coordinate_transformation_mode", how}};
}

Attrs with(Attrs attrs, const std::string& name, const AttrValue& value) {
  attrs.set(name, value);
  return attrs;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

const HostTensor& two_by_two() {
  static const HostTensor x = tensor_of({2, 2}, {1, 2, 3, 4});
  return x;
}

HostTensor counting(const Shape& shape) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.count(); ++i) values.push_back(static_cast<float>(i + 1));
  return tensor_of(shape, values);
}

TEST(Resize, KernelsAgreeAndGradientsHold) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* how :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
      for (const Reals& scales : {Reals{2, 2}, Reals{0.6, 0.7}, Reals{1.4, 1}, Reals{1, 2.5}}) {
        check_op({.op = "resize",
                  .inputs = {{DType::kF32, {2, 5, 4, 3}}},
                  .attrs = {{"mode", std::string(mode)},
                            {"coordinate_transformation_mode", std::string(how)},
                            {"axes", Ints{1, 2}},
                            {"scales", scales}}});
      }
    }
  }
}

TEST(Resize, OtherAxesAndRanks) {
  for (const Ints& axes : {Ints{0}, Ints{3}, Ints{0, 3}, Ints{2, 3}, Ints{1, 2, 3}}) {
    check_op({.op = "resize",
              .inputs = {{DType::kF32, {3, 2, 3, 4}}},
              .attrs = {{"mode", std::string("linear")}, {"axes", axes}, {"sizes", Ints(axes.size(), 5)}}});
  }
  check_op({.op = "resize",
            .inputs = {{DType::kF32, {3, 4}}},
            .attrs = {{"mode", std::string("cubic")}, {"sizes", Ints{7, 4}}}});
}

TEST(Resize, AntialiasExcludeOutsideAndCrop) {
  for (const char* mode : {"linear", "cubic"}) {
    Attrs attrs{{"mode", std::string(mode)}, {"axes", Ints{1, 2}}, {"scales", Reals{0.4, 0.7}}};
    check_op({.op = "resize", .inputs = {{DType::kF32, {2, 9, 8, 3}}}, .attrs = with(attrs, "antialias", 1)});
    check_op({.op = "resize", .inputs = {{DType::kF32, {2, 9, 8, 3}}}, .attrs = with(attrs, "exclude_outside", 1)});
    attrs.set("coordinate_transformation_mode", std::string("tf_crop_and_resize"));
    attrs.set("roi", Reals{-0.2, 0.1, 0.7, 1.3});
    attrs.set("extrapolation_value", 10.0);
    check_op({.op = "resize", .inputs = {{DType::kF32, {2, 9, 8, 3}}}, .attrs = attrs});
  }
}

// The examples of ONNX's definition of Resize.
TEST(Resize, LinearAsInOnnx) {
  const Reals twice = {2, 2};
  expect_near(resized(two_by_two(), with(of_mode("linear"), "scales", twice)),
              {1, 1.25F, 1.75F, 2, 1.5F, 1.75F, 2.25F, 2.5F, 2.5F, 2.75F, 3.25F, 3.5F, 3, 3.25F, 3.75F, 4});
  expect_near(resized(two_by_two(), with(of_mode("linear", "align_corners"), "scales", twice)),
              {1, 4.0F / 3, 5.0F / 3, 2, 5.0F / 3, 2, 7.0F / 3, 8.0F / 3, 7.0F / 3, 8.0F / 3, 3, 10.0F / 3, 3,
               10.0F / 3, 11.0F / 3, 4});
  expect_near(resized(counting({2, 4}), with(of_mode("linear"), "scales", Reals{0.6, 0.6})), {2.6666665F, 4.3333331F});
  expect_near(resized(counting({2, 4}), with(of_mode("linear", "align_corners"), "scales", Reals{0.6, 0.6})),
              {1, 3.142857F});
  expect_near(resized(counting({4, 4}), with(with(of_mode("linear"), "scales", Reals{0.6, 0.6}), "antialias", 1)),
              {2.875F, 4.5F, 9.375F, 11});
  expect_near(resized(counting({4, 4}), with(of_mode("linear", "pytorch_half_pixel"), "sizes", Ints{3, 1})),
              {1.6666666F, 7, 12.333333F});
  Attrs symmetric = of_mode("linear", "half_pixel_symmetric");
  symmetric.set("scales", Reals{2.3F, 2.94F});
  expect_near(resized(two_by_two(), symmetric), {1,           1.15986395F, 1.5F,        1.84013605F, 2,
                                                 1.56521738F, 1.72508133F, 2.06521738F, 2.40535343F, 2.56521738F,
                                                 2.43478262F, 2.59464657F, 2.93478262F, 3.27491867F, 3.43478262F,
                                                 3,           3.15986395F, 3.5F,        3.84013605F, 4});
}

TEST(Resize, CubicAsInOnnx) {
  const auto first = [](const std::vector<float>& all, std::size_t n) {
    return std::vector<float>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
  };
  const HostTensor x = counting({4, 4});
  expect_near(first(resized(x, with(of_mode("cubic"), "scales", Reals{2, 2})), 8),
              {0.47265625F, 0.76953125F, 1.24609375F, 1.875F, 2.28125F, 2.91015625F, 3.38671875F, 3.68359375F});
  expect_near(first(resized(x, with(with(with(of_mode("cubic"), "scales", Reals{2, 2}), "exclude_outside", 1),
                                    "cubic_coeff_a", -0.5)),
                    4),
              {0.55882353F, 0.81494204F, 1.35698249F, 1.89705882F});
  expect_near(resized(x, with(of_mode("cubic"), "scales", Reals{0.8F, 0.8F})),
              {1.47119141F, 2.78125F, 4.08251953F, 6.71142578F, 8.02148438F, 9.32275391F, 11.91650391F, 13.2265625F,
               14.52783203F});
  expect_near(resized(x, with(with(of_mode("cubic"), "scales", Reals{0.6F, 0.6F}), "antialias", 1)),
              {2.5180721F, 4.2858863F, 9.589329F, 11.357142F});
}

TEST(Resize, NearestAsInOnnx) {
  expect_near(resized(two_by_two(), with(of_mode("nearest"), "scales", Reals{2, 3})),
              {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  expect_near(resized(counting({2, 4}), with(of_mode("nearest"), "scales", Reals{0.6, 0.6})), {1, 3});
  const auto rounded = [](const std::string& how, const std::string& rounding) {
    return resized(counting({4, 4}),
                   with(with(of_mode("nearest", how), "sizes", Ints{1, 8}), "nearest_mode", rounding));
  };
  expect_near(rounded("half_pixel", "ceil"), {9, 10, 10, 11, 11, 12, 12, 12});
  expect_near(rounded("asymmetric", "floor"), {1, 1, 2, 2, 3, 3, 4, 4});
  expect_near(rounded("align_corners", "floor"), {1, 1, 1, 2, 2, 3, 3, 4});
  expect_near(rounded("asymmetric", "round_prefer_ceil"), {1, 2, 2, 3, 3, 4, 4, 4});
  expect_near(rounded("asymmetric", "round_prefer_floor"), {1, 1, 2, 2, 3, 3, 4, 4});
}

TEST(Resize, CropExtrapolates) {
  Attrs attrs = of_mode("linear", "tf_crop_and_resize");
  attrs.set("sizes", Ints{3, 3});
  attrs.set("roi", Reals{0.4F, 0.6F, 1.2F, 1.7F});
  attrs.set("extrapolation_value", 10.0);
  expect_near(resized(counting({4, 4}), attrs), {7.6F, 10, 10, 12.4F, 10, 10, 10, 10, 10});
}

TEST(Resize, OtherTypes) {
  const HostTensor x = tensor_from(DType::kU8, {1, 2}, {3, 200});
  const auto out = run_op({.op = "resize", .inputs = {x.type}, .attrs = {{"sizes", Ints{2, 4}}}, .given = {{0, x}}});
  EXPECT_EQ(numbers_of(out[0]), (Reals{3, 3, 200, 200, 3, 3, 200, 200}));
}

TEST(Resize, KernelsAgreeOnOtherTypes) {
  for (const DType type : {DType::kU8, DType::kI8, DType::kI32, DType::kI64, DType::kF64}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const Reals& scales : {Reals{2, 1.7}, Reals{0.4, 0.7}}) {
        const Attrs attrs{{"mode", std::string(mode)}, {"axes", Ints{1, 2}}, {"scales", scales}};
        check_kernels({.op = "resize", .inputs = {{type, {2, 9, 8, 3}}}, .attrs = attrs, .integer_bound = 100});
      }
    }
  }
  check_kernels({.op = "resize",
                 .inputs = {{DType::kF32, {2, 3, 2, 3, 2, 2}}},
                 .attrs = {{"mode", std::string("linear")}, {"sizes", Ints{3, 2, 3, 2, 3, 3}}}});
}

void check_takers(const ops::ResizeRule& rule, const std::string& what) {
  for (std::int64_t o = 0; o < rule.out; ++o) {
    rule.each_tap(o, [&](std::int64_t i, double) {
      const ops::ResizeRule::Outputs takers = rule.takers(i);
      EXPECT_TRUE(takers.first <= o && o < takers.end && takers.end <= rule.out) << what << ": " << o << " of " << i;
    });
  }
}

// Backward finds the outputs that take from an input by turning the rule around.
TEST(Resize, TakersAreAllThatTake) {
  std::vector<ops::ResizeRule> sizes;
  for (const double scale : {0.07, 0.3, 0.5, 1.0, 1.4, 2.0, 31.0}) {
    for (const std::int64_t in : {1, 2, 7, 40}) {
      const auto out = static_cast<std::int64_t>(static_cast<double>(in) * scale) + 3;
      for (const double end : {0.8, 0.2, 0.3, 1.5}) {
        sizes.push_back({.in = in, .out = out, .scale = scale, .roi_begin = 0.3, .roi_end = end});
      }
    }
  }
  for (const char* how : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                          "tf_crop_and_resize"}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const ops::ResizeRule& size : sizes) {
        check_takers(ops::resize_rule(size, of_mode(mode, how)), std::string(how) + " " + mode);
        check_takers(ops::resize_rule(size, with(of_mode(mode, how), "antialias", 1)), std::string(how) + " " + mode);
      }
    }
  }
}

TEST(Resize, OnAnyNumberOfThreads) {
  const Attrs attrs{{"mode", std::string("linear")}, {"axes", Ints{1, 2}}, {"scales", Reals{2, 2}}};
  check_threads({.op = "resize", .inputs = {{DType::kF32, {3, 17, 19, 33}}}, .attrs = attrs});
  check_threads({.op = "resize_grad",
                 .inputs = {{DType::kF32, {3, 34, 38, 33}}},
                 .attrs = with(attrs, "shape", Shape{3, 17, 19, 33})});
}

TEST(Resize, SymbolicShapes) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), Dim::symbol("h"), 4, 3});
  EXPECT_EQ(g.shape(g("resize", {x}, {{"axes", Ints{1, 2}}, {"scales", Reals{2, 1.5}}})).text(), "[batch,2*h,6,3]");
}

TEST(Resize, RefusesWhatDoesNotFit) {
  const auto run = [](const Attrs& attrs) {
    run_op({.op = "resize", .inputs = {{DType::kF32, {2, 3}}}, .attrs = attrs});
  };
  EXPECT_THROW(run({}), UserError);
  EXPECT_THROW(run({{"sizes", Ints{4}}}), UserError);
  EXPECT_THROW(run({{"sizes", Ints{4, -1}}}), UserError);
  EXPECT_THROW(run({{"scales", Reals{0, 1}}}), UserError);
  EXPECT_THROW(run({{"scales", Reals{1, 1}}, {"mode", std::string("lanczos")}}), UserError);
  EXPECT_THROW(run({{"scales", Reals{1, 1}}, {"axes", Ints{0, 0}}}), UserError);
  EXPECT_THROW(run(with(of_mode("linear", "tf_crop_and_resize"), "sizes", Ints{1, 1})), UserError);
}

}  // namespace
}  // namespace neap
