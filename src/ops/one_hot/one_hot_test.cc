#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

TEST(OneHot, MarksTheIndex) {
  HostTensor x({DType::kI64, {4}});
  const std::int64_t indices[] = {1, -1, 3, 0};
  std::copy_n(indices, 4, x.as<std::int64_t>());
  const auto run = [&](Attrs attrs) {
    return run_op({.op = "one_hot", .inputs = {x.type}, .attrs = std::move(attrs), .given = {{0, x}}})[0];
  };
  EXPECT_EQ(values_of(run({{"depth", 3}})), (std::vector<float>{0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}));
  const HostTensor first = run({{"depth", 2}, {"axis", 0}, {"on", 5.0}, {"off", -1.0}});
  EXPECT_EQ(first.type.text(), "f32[2,4]");
  EXPECT_EQ(values_of(first), (std::vector<float>{-1, -1, -1, 5, 5, 5, -1, -1}));
}

TEST(OneHot, TypesOfIndices) {
  for (const DType type : {DType::kI64, DType::kI32, DType::kU8}) {
    const HostTensor x = random_tensor({type, {2, 5}}, 3, 0, 1, 4);
    const auto out =
        run_op({.op = "one_hot", .inputs = {x.type}, .attrs = {{"depth", 4}, {"axis", 1}}, .given = {{0, x}}});
    EXPECT_EQ(out[0].type.text(), "f32[2,4,5]");
    float sum = 0;
    for (const float v : values_of(out[0])) sum += v;
    EXPECT_EQ(sum, 10);
  }
}

TEST(OneHot, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "one_hot", .inputs = {{DType::kBool, {3}}}, .attrs = {{"depth", 4}}}), UserError);
  EXPECT_THROW(run_op({.op = "one_hot", .inputs = {{DType::kI64, {3}}}, .attrs = {{"depth", 0}}}), UserError);
  EXPECT_THROW(run_op({.op = "one_hot", .inputs = {{DType::kI64, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "one_hot", .inputs = {{DType::kI64, {3}}}, .attrs = {{"depth", 4}, {"axis", 2}}}),
               UserError);
}

}  // namespace
}  // namespace neap
