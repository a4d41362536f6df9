#include <cmath>
#include <limits>

#include "ops/elementwise/element_testing.h"
#include "ops/op_check.h"

namespace neap {
namespace {

using Numbers = std::vector<double>;

HostTensor run(const std::string& op, const std::vector<HostTensor>& in, const Attrs& attrs = {}) {
  OpCase c{.op = op, .attrs = attrs};
  for (std::size_t i = 0; i < in.size(); ++i) {
    c.inputs.push_back(in[i].type);
    c.given[i] = in[i];
  }
  check_kernels(c);
  return run_op(c)[0];
}

TEST(Quantize, PerTensorRoundsHalvesToEvenAndSaturates) {
  const HostTensor x = tensor_from(DType::kF32, {6}, {0, 2, 5, 1000, -254, -1000});
  const HostTensor scale = tensor_from(DType::kF32, {}, {2});
  const HostTensor y = run("quantize_linear", {x, scale, tensor_from(DType::kU8, {}, {128})});
  EXPECT_EQ(y.type.dtype, DType::kU8);
  EXPECT_EQ(numbers_of(y), (Numbers{128, 129, 130, 255, 1, 0}));
  EXPECT_EQ(numbers_of(run("quantize_linear", {x, scale}, {{"dtype", std::string("i8")}})),
            (Numbers{0, 1, 2, 127, -127, -128}));
  EXPECT_EQ(numbers_of(run("quantize_linear", {x, scale, tensor_from(DType::kI16, {}, {-1})})),
            (Numbers{-1, 0, 1, 499, -128, -501}));
}

TEST(Quantize, PerAxisAndBlocked) {
  const HostTensor x = tensor_from(DType::kF32, {2, 3}, {2, 4, 6, 2, 4, 6});
  const HostTensor scale = tensor_from(DType::kF32, {2}, {1, 2});
  const HostTensor zero = tensor_from(DType::kU8, {2}, {0, 10});
  EXPECT_EQ(numbers_of(run("quantize_linear", {x, scale, zero}, {{"axis", 0}})), (Numbers{2, 4, 6, 11, 12, 13}));
  const HostTensor blocks = tensor_from(DType::kF32, {2, 2}, {1, 2, 2, 3});
  EXPECT_EQ(numbers_of(run("quantize_linear", {x, blocks}, {{"axis", 1}, {"block_size", 2}})),
            (Numbers{2, 4, 3, 1, 2, 2}));
}

TEST(Dequantize, EveryForm) {
  const HostTensor x = tensor_from(DType::kI8, {2, 2}, {0, 3, -128, 127});
  EXPECT_EQ(numbers_of(run("dequantize_linear",
                           {x, tensor_from(DType::kF32, {}, {0.5}), tensor_from(DType::kI8, {}, {-128})})),
            (Numbers{64, 65.5, 0, 127.5}));
  EXPECT_EQ(numbers_of(run("dequantize_linear", {x, tensor_from(DType::kF16, {2}, {1, 2})})),
            (Numbers{0, 6, -128, 254}));
  const HostTensor wide = tensor_from(DType::kI32, {2, 2}, {100000, 3, -128, 127});
  EXPECT_EQ(numbers_of(run("dequantize_linear", {wide, tensor_from(DType::kF32, {1, 2}, {1, 2})},
                           {{"axis", 0}, {"block_size", 2}})),
            (Numbers{100000, 6, -128, 254}));
}

// Values beyond the range, halves and what is no number; every type, scale and way to spread the scales.
TEST(Quantize, EveryKernelGivesTheSame) {
  const double inf = std::numeric_limits<double>::infinity();
  const HostTensor odd = tensor_from(DType::kF32, {2, 5}, {inf, -inf, NAN, 0.5, 1.5, -0.5, -1.5, 2.5, 1e30, -1e-30});
  for (const DType type : {DType::kU8, DType::kI8, DType::kU16, DType::kI16}) {
    const std::string to(name(type));
    run("quantize_linear", {odd, tensor_from(DType::kF32, {}, {1})}, {{"dtype", to}});
    for (const Shape& scales : {Shape{}, Shape{7}, Shape{5, 3, 6}}) {
      const Attrs attrs{{"axis", 1}, {"block_size", scales.rank() == 3 ? 3 : 0}};
      OpCase c{.op = "quantize_linear",
               .inputs = {{DType::kF32, {5, 7, 6}}, {DType::kF32, scales}, {type, scales}},
               .attrs = attrs,
               .integer_bound = 100};
      c.given = {{0, random_tensor(c.inputs[0], 3, -300, 300)}, {1, random_tensor(c.inputs[1], 4, 0.01, 2)}};
      check_kernels(c);
      c.inputs[0] = {DType::kI32, {5, 7, 6}};
      c.given.erase(0);
      check_kernels(c);
      c.op = "dequantize_linear";
      c.inputs[0].dtype = type;
      check_kernels(c);
      c.inputs[0].dtype = c.inputs[2].dtype = DType::kI32;
      check_kernels(c);
    }
  }
}

TEST(Quantize, RefusesWhatDoesNotFit) {
  const HostTensor x = tensor_from(DType::kF32, {2, 3}, {});
  const HostTensor one = tensor_from(DType::kF32, {}, {1});
  EXPECT_THROW(run("quantize_linear", {x, tensor_from(DType::kF32, {2}, {1, 1})}), UserError);
  EXPECT_THROW(run("quantize_linear", {x, one}, {{"dtype", std::string("i64")}}), UserError);
  EXPECT_THROW(run("quantize_linear", {x, one, tensor_from(DType::kI32, {}, {0})}), UserError);
  EXPECT_THROW(run("quantize_linear", {x, tensor_from(DType::kU8, {}, {1})}), UserError);
  EXPECT_THROW(run("dequantize_linear", {x, one}), UserError);
  EXPECT_THROW(run("dequantize_linear", {tensor_from(DType::kU8, {2}, {}), one, tensor_from(DType::kI8, {}, {0})}),
               UserError);
}

}  // namespace
}  // namespace neap
