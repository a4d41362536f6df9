#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

Numbers run(const std::string& op, const std::vector<HostTensor>& in, const Attrs& attrs = {}) {
  OpCase c{.op = op, .attrs = attrs};
  for (std::size_t i = 0; i < in.size(); ++i) {
    c.inputs.push_back(in[i].type);
    if (in[i].data.empty()) c.absent.push_back(i);
    c.given[i] = in[i];
  }
  check_kernels(c);
  return numbers_of(run_op(c)[0]);
}

TEST(MatmulInteger, ZeroPointsOfEveryForm) {
  const HostTensor a = tensor_from(DType::kU8, {2, 2}, {11, 7, 10, 6});
  const HostTensor b = tensor_from(DType::kI8, {2, 2}, {1, -4, 2, 5});
  EXPECT_EQ(run("matmul_integer", {a, b}), (Numbers{25, -9, 22, -10}));
  EXPECT_EQ(run("matmul_integer", {a, b, tensor_from(DType::kU8, {}, {12}), tensor_from(DType::kI8, {1}, {1})}),
            (Numbers{-5, -15, -6, -14}));
  EXPECT_EQ(run("matmul_integer", {a, b, tensor_from(DType::kU8, {2}, {10, 6})}), (Numbers{-5, -19, 4, -16}));
  EXPECT_EQ(run("matmul_integer", {a, b, tensor_from(DType::kU8, {2, 1}, {10, 6})}), (Numbers{-5, -19, 4, -16}));
  EXPECT_EQ(run("matmul_integer", {a, b, HostTensor(), tensor_from(DType::kI8, {2}, {1, 5})}),
            (Numbers{7, -99, 6, -90}));
  EXPECT_THROW(run("matmul_integer", {a, tensor_from(DType::kF32, {2, 2}, {})}), UserError);
  EXPECT_THROW(run("matmul_integer", {a, b, tensor_from(DType::kU8, {3}, {})}), UserError);
  EXPECT_THROW(run("matmul_integer", {a, b, tensor_from(DType::kI8, {}, {1})}), UserError);
}

// More than one tile of the result and of the sum, batches that are shared, zero points of every shape.
TEST(MatmulInteger, EveryKernelGivesTheSame) {
  const auto check = [](const Shape& a, const Shape& b, const Shape& a_zero, const Shape& b_zero) {
    check_kernels({.op = "matmul_integer",
                   .inputs = {{DType::kU8, a}, {DType::kI8, b}, {DType::kU8, a_zero}, {DType::kI8, b_zero}},
                   .integer_bound = 256});
  };
  check({70, 45}, {45, 67}, {}, {1});
  check({70, 45}, {45, 67}, {70}, {67});
  check({3, 5, 33}, {33, 6}, {3, 5, 1}, {1, 6});
  check({2, 1, 5, 33}, {3, 33, 6}, {2, 1, 5, 1}, {3, 1, 6});
  check({33}, {2, 33, 6}, {33}, {});
  check({4, 33}, {33}, {4, 33}, {33});
  check({4, 0}, {0, 3}, {}, {});
}

TEST(ConvInteger, EveryKernelGivesTheSame) {
  const auto check = [](const Shape& x, const Shape& w, const Shape& w_zero, const Attrs& attrs) {
    check_kernels({.op = "conv_integer",
                   .inputs = {{DType::kI8, x}, {DType::kU8, w}, {DType::kI8, {}}, {DType::kU8, w_zero}},
                   .attrs = attrs,
                   .integer_bound = 200});
  };
  check({2, 7, 6, 5}, {70, 3, 2, 5}, {70},
        {{"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{1, 2}}, {"dilations", Ints{2, 1}}});
  check({1, 6, 5, 4}, {6, 2, 2, 2}, {1}, {{"groups", 2}});
  check({1, 3, 4, 5, 2}, {3, 2, 1, 3, 2}, {}, {{"pads", Ints{1, 0, 1, 0, 0, 1}}});
  check({2, 9, 3}, {2, 4, 3}, {2}, {});
}

TEST(ConvInteger, PaddingIsTheZeroPoint) {
  const HostTensor x = tensor_from(DType::kU8, {1, 3, 3, 1}, {2, 3, 4, 5, 6, 7, 8, 9, 10});
  const HostTensor w = tensor_from(DType::kU8, {1, 2, 2, 1}, {1, 1, 1, 1});
  const HostTensor one = tensor_from(DType::kU8, {}, {1});
  EXPECT_EQ(run("conv_integer", {x, w, one}), (Numbers{12, 16, 24, 28}));
  EXPECT_EQ(run("conv_integer", {x, w, one}, {{"pads", Ints{1, 1, 1, 1}}}),
            (Numbers{1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9}));
  const HostTensor two = tensor_from(DType::kU8, {2, 2, 2, 1}, {1, 1, 1, 1, 3, 3, 3, 3});
  EXPECT_EQ(run("conv_integer", {x, two, one, tensor_from(DType::kU8, {2}, {0, 1})}, {{"strides", Ints{2, 2}}}),
            (Numbers{12, 24}));
  EXPECT_THROW(run("conv_integer", {x, w, tensor_from(DType::kU8, {2}, {})}), UserError);
}

}  // namespace
}  // namespace neap
