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
