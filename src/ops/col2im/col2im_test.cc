#include "ops/col2im/col2im.h"

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(Col2Im, GradientsHold) {
  const Attrs attrs{{"image", Ints{5, 4}},
                    {"kernel", Ints{2, 3}},
                    {"strides", Ints{2, 1}},
                    {"pads", Ints{1, 0, 0, 1}},
                    {"dilations", Ints{1, 1}}};
  check_op({.op = "col2im", .inputs = {{DType::kF32, {2, 12, 9}}}, .attrs = attrs});
  check_op({.op = "im2col", .inputs = {{DType::kF32, {2, 5, 4, 3}}}, .attrs = {{"kernel", Ints{2, 2}}}});
  check_op({.op = "col2im",
            .inputs = {{DType::kF32, {1, 8, 2}}},
            .attrs = {{"image", Ints{2, 2, 3}}, {"kernel", Ints{2, 2, 2}}}});
}

// What a GPU adds up pixel by pixel are the bits that come of going through the columns.
TEST(Col2Im, StridesDilationsAndPadsOfEachAxis) {
  for (const Ints& dilations : {Ints{2, 1, 3}, Ints{1, 3, 2}, Ints{1, 2, 6}}) {
    const Attrs attrs{{"kernel", Ints{2, 3, 2}},
                      {"strides", Ints{1, 2, 3}},
                      {"pads", Ints{1, -1, 2, 0, 3, 1}},
                      {"dilations", dilations}};
    const TensorType image{DType::kF32, {2, 4, 6, 7, 2}};
    check_op({.op = "im2col", .inputs = {image}, .attrs = attrs});
    const HostTensor columns = run_op({.op = "im2col", .inputs = {image}, .attrs = attrs})[0];
    Attrs back = attrs;
    back.set("image", Ints{4, 6, 7});
    const OpCase c{.op = "col2im", .inputs = {columns.type}, .attrs = back, .given = {{0, columns}}};
    const std::vector<float> want = values_of(run_op(c)[0]);
    const ops::WindowColumns w = ops::window_columns({.attrs = attrs}, image.shape);
    for (std::int64_t e = 0; e < image.elements(); ++e) {
      const std::int64_t pixel = e / w.channels;
      EXPECT_EQ(w.sum(columns.floats(), pixel / w.pixels, e % w.channels, pixel % w.pixels),
                want[static_cast<std::size_t>(e)])
          << e;
    }
  }
}

// Channels lie last in the image; overlapping windows add up.
TEST(Col2Im, AddsWhereWindowsMeet) {
  const HostTensor x = tensor_of({1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto out = run_op(
      {.op = "col2im", .inputs = {x.type}, .attrs = {{"image", Ints{3}}, {"kernel", Ints{2}}}, .given = {{0, x}}});
  EXPECT_EQ(out[0].type.text(), "f32[1,3,2]");
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{1, 5, 5, 13, 4, 8}));
}

TEST(Col2Im, PadsAreCutOff) {
  const HostTensor x = tensor_of({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto out = run_op({.op = "col2im",
                           .inputs = {x.type},
                           .attrs = {{"image", Ints{3}}, {"kernel", Ints{2}}, {"pads", Ints{1, 0}}},
                           .given = {{0, x}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{6, 8, 6}));
}

TEST(Col2Im, RefusesWhatDoesNotFit) {
  const auto run = [](const Shape& x, const Attrs& attrs) {
    run_op({.op = "col2im", .inputs = {{DType::kF32, x}}, .attrs = attrs});
  };
  EXPECT_THROW(run({1, 3, 2}, {{"image", Ints{3}}, {"kernel", Ints{2}}}), UserError);
  EXPECT_THROW(run({1, 4, 3}, {{"image", Ints{3}}, {"kernel", Ints{2}}}), UserError);
  EXPECT_THROW(run({1, 4, 2}, {{"image", Ints{3}}, {"kernel", Ints{2, 1}}}), UserError);
  EXPECT_THROW(run({1, 4, 2}, {{"image", Ints{1}}, {"kernel", Ints{2}}}), UserError);
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(run({1, 4, 2}, {{"image", Ints{huge, huge}}, {"kernel", Ints{2, 2}}}), UserError);
}

}  // namespace
}  // namespace neap
