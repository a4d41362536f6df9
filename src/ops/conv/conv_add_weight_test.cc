#include <gtest/gtest.h>

#include "graph/op.h"
#include "ops/op_check.h"

namespace neap {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct Case {
  Shape x, dy, sum;
  Attrs attrs;
};

std::vector<Case> cases() {
  const auto attrs = [](std::int64_t stride, std::int64_t pad, std::int64_t dilation,
                        std::int64_t kernel = 3) -> Attrs {
    return {{"strides", Ints{stride, stride}},
            {"pads", Ints{pad, pad, pad, pad}},
            {"dilations", Ints{dilation, dilation}},
            {"kernel", Ints{kernel, kernel}}};
  };
  return {{{2, 5, 7, 3}, {2, 5, 7, 4}, {4, 3, 3, 3}, attrs(1, 1, 1)},
          {{3, 8, 8, 5}, {3, 4, 4, 6}, {6, 3, 3, 5}, attrs(2, 1, 1)},
          {{2, 9, 9, 2}, {2, 5, 5, 3}, {3, 3, 3, 2}, attrs(1, 0, 2)},
          {{2, 4, 4, 8}, {2, 4, 4, 9}, {9, 1, 1, 8}, attrs(1, 0, 1, 1)},
          {{2, 4, 4, 8}, {2, 2, 2, 9}, {9, 1, 1, 8}, attrs(2, 0, 1, 1)},
          {{1, 20, 20, 40}, {1, 20, 20, 8}, {8, 3, 3, 40}, attrs(1, 1, 1)}};  // windows in several pieces
}

TEST(ConvAddWeight, KernelsAgree) {
  for (const Case& c : cases()) {
    OpCase o{.op = "conv_add_weight", .inputs = {f32(c.x), f32(c.dy), f32(c.sum)}, .attrs = c.attrs, .tolerance = 1e-4};
    check_kernels(o);
    o.absent = {2};
    check_kernels(o);
  }
}

TEST(ConvAddWeight, DataWithoutACopyOfTheWeight) {
  for (const Case& c : cases()) {
    Attrs attrs = c.attrs;
    attrs.set("shape", c.x);
    attrs.set("lean", std::int64_t{1});
    check_kernels({.op = "conv_grad_data", .inputs = {f32(c.dy), f32(c.sum)}, .attrs = attrs, .tolerance = 1e-4});
  }
}

TEST(ConvAddWeight, AddsTheGradient) {
  for (const Case& c : cases()) {
    const HostTensor x = random_tensor(f32(c.x), 1);
    const HostTensor dy = random_tensor(f32(c.dy), 2);
    const HostTensor sum = random_tensor(f32(c.sum), 3);
    HostTensor want = run_op(
        {.op = "conv_grad_weight", .inputs = {x.type, dy.type}, .attrs = c.attrs, .given = {{0, x}, {1, dy}}})[0];
    for (std::int64_t i = 0; i < want.type.elements(); ++i) want.floats()[i] += sum.floats()[i];
    const auto got = run_op({.op = "conv_add_weight",
                             .inputs = {x.type, dy.type, sum.type},
                             .attrs = c.attrs,
                             .given = {{0, x}, {1, dy}, {2, sum}}});
    expect_same(got[0], want, 2e-5, c.x.text());
  }
}

TEST(ConvAddWeight, RefusesGroups) {
  EXPECT_THROW(run_op({.op = "conv_add_weight",
                       .inputs = {f32({1, 4, 4, 4}), f32({1, 4, 4, 4}), f32({4, 1, 1, 2})},
                       .attrs = {{"groups", std::int64_t{2}}, {"kernel", Ints{1, 1}}}}),
               UserError);
}

TEST(LinearAddWeight, AddsTheGradient) {
  for (const std::int64_t transposed : {0, 1}) {
    const Attrs attrs = {{"transposed", transposed}};
    const Shape shape = transposed != 0 ? Shape{5, 9} : Shape{9, 5};
    const OpCase c{.op = "linear_add_weight",
                   .inputs = {f32({2, 7, 5}), f32({2, 7, 9}), f32(shape)},
                   .attrs = attrs,
                   .given = {{0, random_tensor(f32({2, 7, 5}), 1)},
                             {1, random_tensor(f32({2, 7, 9}), 2)},
                             {2, random_tensor(f32(shape), 3)}}};
    check_kernels(c);
    Attrs with_shape = attrs;
    with_shape.set("shape", shape);
    HostTensor want = run_op({.op = "linear_grad_weight",
                              .inputs = {c.inputs[0], c.inputs[1]},
                              .attrs = with_shape,
                              .given = {{0, c.given.at(0)}, {1, c.given.at(1)}}})[0];
    for (std::int64_t i = 0; i < want.type.elements(); ++i) want.floats()[i] += c.given.at(2).floats()[i];
    expect_same(run_op(c)[0], want, 1e-5, shape.text());
  }
  EXPECT_THROW(run_op({.op = "linear_add_weight", .inputs = {f32({7, 5}), f32({7, 9}), f32({9, 6})}}), UserError);
}

}  // namespace
}  // namespace neap
