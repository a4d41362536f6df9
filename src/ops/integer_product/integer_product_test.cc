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
