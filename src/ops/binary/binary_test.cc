#include <bit>
#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct ShapePair {
  Shape a, b;
};
std::vector<ShapePair> shape_pairs() {
  return {{{}, {}},
          {{7}, {7}},
          {{33, 5}, {}},
          {{}, {3, 19}},
          {{1}, {4, 1}},
          {{6, 17}, {17}},    // a row vector
          {{6, 17}, {6, 1}},  // a column
          {{1, 17}, {6, 1}},  // an outer product
          {{2, 3, 5}, {3, 1}},
          {{2, 1, 5, 1}, {3, 1, 4}},
          {{2, 3, 2, 3, 2}, {1, 3, 1, 3, 1}},
          {{4, 5001}, {4, 5001}},  // more than a block
          {{9, 2003}, {2003}},
          {{9, 2003}, {9, 1}}};
}

TEST(Binary, ArithmeticKernelsAgreeAndGradientsHold) {
  for (const char* op : {"add", "sub", "mul", "div", "pow", "mod", "min", "max"}) {
    for (const ShapePair& s : shape_pairs()) {
      OpCase c{.op = op, .inputs = {{DType::kF32, s.a}, {DType::kF32, s.b}}, .low = 0.5, .high = 2.5, .step = 1e-3};
      c.gradient_tolerance = 3e-2;                        // sums over many elements, in differences of f32
      if (std::string(op) == "mod") c.constant = {0, 1};  // jumps; see ModGradient
      const bool is_small = broadcast(s.a, s.b).count() < 1000;
      is_small ? check_op(c) : check_kernels(c);
    }
  }
}

TEST(Binary, ComparisonsAndIntegers) {
  for (const char* op : {"equal", "less", "less_or_equal", "greater", "greater_or_equal", "add", "sub", "mul", "div",
                         "mod", "min", "max"}) {
    for (const DType type : {DType::kF32, DType::kI32, DType::kI64}) {
      for (const ShapePair& s : shape_pairs()) {
        check_kernels({.op = op, .inputs = {{type, s.a}, {type, s.b}}, .integer_bound = 4});
      }
    }
  }
}

TEST(Binary, BroadcastsLikeNumpy) {
  const auto out = run_op({.op = "sub",
                           .inputs = {{DType::kF32, {2, 1}}, {DType::kF32, {3}}},
                           .given = {{0, tensor_of({2, 1}, {10, 20})}, {1, tensor_of({3}, {1, 2, 3})}}});
  EXPECT_EQ(out[0].type.shape.text(), "[2,3]");
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{9, 8, 7, 19, 18, 17}));
}

TEST(Binary, InPlaceAndOnAnyNumberOfThreads) {
  for (const char* op : {"add", "sub", "mul", "div", "pow", "mod", "min", "max"}) {
    const TensorType whole{DType::kF32, {7, 3001}};
    check_in_place({.op = op, .inputs = {whole, whole}, .low = 0.5, .high = 2});
    check_in_place({.op = op, .inputs = {whole, {DType::kF32, {3001}}}, .low = 0.5, .high = 2});
    check_in_place({.op = op, .inputs = {{DType::kF32, {7, 1}}, whole}, .low = 0.5, .high = 2});
    check_threads({.op = op, .inputs = {whole, {DType::kF32, {7, 1}}}, .low = 0.5, .high = 2});
  }
  for (const char* op : {"div_grad", "pow_grad", "pow_exponent_grad", "min_grad", "max_grad"}) {
    const TensorType whole{DType::kF32, {3, 301}};
    check_kernels({.op = op, .inputs = {whole, {DType::kF32, {301}}, {DType::kF32, {3, 1}}}, .low = 0.5, .high = 2});
    check_in_place({.op = op, .inputs = {whole, whole, {DType::kF32, {301}}}, .low = 0.5, .high = 2});
  }
}

// Every pair of special values, as C's operators and functions have it.
TEST(Binary, SpecialValues) {
  const std::vector<float> all = {0.0F,  -0.0F, 1.0F,      -1.0F,  2.0F,    -2.5F,   3.0F,     kInf,
                                  -kInf, kNan,  0x1p-149F, 1e-40F, -1e-40F, 3.4e38F, -3.4e38F, 0.5F};
  const auto n = static_cast<std::int64_t>(all.size());
  const auto as_is = [](float a, float b, const std::string& op) -> float {
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if (op == "div") return a / b;
    if (op == "pow") return std::pow(a, b);
    if (op == "mod") return std::fmod(a, b);
    if (std::isnan(a) || std::isnan(b)) return kNan;
    return op == "min" ? std::fmin(a, b) : std::fmax(a, b);
  };
  for (const std::string op : {"add", "sub", "mul", "div", "pow", "mod", "min", "max"}) {
    OpCase c{.op = op, .inputs = {{DType::kF32, {n, 1}}, {DType::kF32, {n}}}};
    if (op == "mod") c.attrs.set("fmod", 1);
    c.given = {{0, tensor_of({n, 1}, all)}, {1, tensor_of({n}, all)}};
    for (const char* kernel : {"simd", "ref"}) {
      const auto out = run_op(c, kernel);
      for (std::int64_t i = 0; i < n * n; ++i) {
        const float a = all[static_cast<std::size_t>(i / n)];
        const float b = all[static_cast<std::size_t>(i % n)];
        const float want = as_is(a, b, op);
        const float got = out[0].floats()[i];
        const bool same =
            std::isnan(want) ? std::isnan(got) : std::abs(got - want) <= 1e-6F * std::abs(want) || got == want;
        EXPECT_TRUE(same) << op << "(" << a << ", " << b << ") = " << got << " by " << kernel << ", expected " << want;
      }
    }
  }
}

TEST(Binary, ComparisonsWithNanAreFalse) {
  for (const std::string op : {"equal", "less", "less_or_equal", "greater", "greater_or_equal"}) {
    auto out = run_op({.op = op,
                       .inputs = {{DType::kF32, {3}}, {DType::kF32, {3}}},
                       .given = {{0, tensor_of({3}, {kNan, 1, -0.0F})}, {1, tensor_of({3}, {kNan, kNan, 0})}}});
    EXPECT_EQ(out[0].type.dtype, DType::kBool);
    EXPECT_EQ(out[0].as<std::uint8_t>()[0], 0);
    EXPECT_EQ(out[0].as<std::uint8_t>()[1], 0);
    EXPECT_EQ(out[0].as<std::uint8_t>()[2], op == "less" || op == "greater" ? 0 : 1);
  }
}

// Powers by a scalar have ways of their own.
TEST(Binary, PowByScalars) {
  const std::vector<float> x = {0.0F, -0.0F, 1.5F, -1.5F, kInf, -kInf, kNan, 1e-30F, 1e30F, -3.0F};
  for (const float y : {1.0F, 2.0F, 3.0F, -1.0F, 0.5F, 0.0F, -2.0F}) {
    const auto out = run_op({.op = "pow",
                             .inputs = {{DType::kF32, {10}}, {DType::kF32, {}}},
                             .given = {{0, tensor_of({10}, x)}, {1, tensor_of({}, {y})}}});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = std::pow(x[i], y);
      const float got = out[0].floats()[i];
      EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want || std::abs(got / want - 1) < 1e-6F)
          << x[i] << "^" << y << " = " << got;
    }
  }
}

TEST(Binary, PowGradientAtZero) {
  const auto slope = [](float a, float b) {
    return run_op({.op = "pow_exponent_grad",
                   .inputs = {{DType::kF32, {1}}, {DType::kF32, {1}}, {DType::kF32, {1}}},
                   .given = {{0, tensor_of({1}, {1})},
                             {1, tensor_of({1}, {a})},
                             {2, tensor_of({1}, {std::pow(a, b)})}}})[0]
        .floats()[0];
  };
  EXPECT_EQ(slope(0, 2), 0);
  EXPECT_EQ(slope(0, 0), 0);
  EXPECT_EQ(slope(0, -1), -kInf);
}

TEST(Binary, TiesShareTheGradient) {
  const auto out = run_op(
      {.op = "max_grad",
       .inputs = {{DType::kF32, {3}}, {DType::kF32, {3}}, {DType::kF32, {3}}},
       .given = {{0, tensor_of({3}, {8, 8, 8})}, {1, tensor_of({3}, {1, 2, 3})}, {2, tensor_of({3}, {2, 2, 2})}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0, 4, 8}));
}

TEST(Binary, ModTakesTheSignOfTheDivisorUnlessFmod) {
  const std::vector<float> a = {5, -5, 5, -5, 6, -6};
  const std::vector<float> b = {3, 3, -3, -3, 3, 3};
  OpCase c{.op = "mod",
           .inputs = {{DType::kF32, {6}}, {DType::kF32, {6}}},
           .given = {{0, tensor_of({6}, a)}, {1, tensor_of({6}, b)}}};
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{2, 1, -1, -2, 0, 0}));
  c.attrs.set("fmod", 1);
  EXPECT_EQ(values_of(run_op(c)[0]), (std::vector<float>{2, -2, 2, -2, 0, 0}));
}

TEST(Binary, ModGradient) {
  for (const std::int64_t fmod : {0, 1}) {
    OpCase c{.op = "mod", .inputs = {{DType::kF32, {4}}, {DType::kF32, {4}}}, .attrs = {{"fmod", fmod}}};
    c.given = {{0, tensor_of({4}, {5.3F, -5.2F, 4.4F, -7.1F})}, {1, tensor_of({4}, {2.1F, 3, -3.3F, -2})}};
    check_op(c);
  }
}

TEST(Binary, IntegersDoNotTrap) {
  HostTensor a({DType::kI32, {4}});
  HostTensor b({DType::kI32, {4}});
  const std::int32_t least = std::numeric_limits<std::int32_t>::min();
  const std::int32_t left[] = {7, least, -7, least};
  const std::int32_t right[] = {0, -1, 2, least};
  std::copy_n(left, 4, a.as<std::int32_t>());
  std::copy_n(right, 4, b.as<std::int32_t>());
  const auto run = [&](const std::string& op, const char* kernel) {
    auto out = run_op({.op = op, .inputs = {a.type, b.type}, .given = {{0, a}, {1, b}}}, kernel);
    return std::vector<std::int32_t>(out[0].as<std::int32_t>(), out[0].as<std::int32_t>() + 4);
  };
  for (const char* kernel : {"simd", "ref"}) {
    EXPECT_EQ(run("div", kernel), (std::vector<std::int32_t>{0, least, -3, 1}));
    EXPECT_EQ(run("mod", kernel), (std::vector<std::int32_t>{0, 0, 1, 0}));
    EXPECT_EQ(run("add", kernel), (std::vector<std::int32_t>{7, std::numeric_limits<std::int32_t>::max(), -5, 0}));
  }
}

TEST(Binary, Logic) {
  HostTensor a({DType::kBool, {2, 1}});
  HostTensor b({DType::kBool, {2}});
  a.data = {std::byte{0}, std::byte{1}};
  b.data = {std::byte{0}, std::byte{1}};
  const auto run = [&](const std::string& op) {
    auto out = run_op({.op = op, .inputs = {a.type, b.type}, .given = {{0, a}, {1, b}}});
    return std::vector<int>(out[0].as<std::uint8_t>(), out[0].as<std::uint8_t>() + 4);
  };
  EXPECT_EQ(run("and"), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(run("or"), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(run("xor"), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(run("equal"), (std::vector<int>{1, 0, 0, 1}));
}

TEST(Binary, SymbolicShapes) {
  Builder g;
  const Dim batch = Dim::symbol("batch");
  const Value x = g.input("x", DType::kF32, {batch, 4, 8});
  const Value bias = g.parameter("bias", {8}, Init::constant(0));
  EXPECT_EQ(g.shape(g("add", {x, bias})).text(), "[batch,4,8]");
  EXPECT_EQ(g.shape(g("less", {bias, x})).text(), "[batch,4,8]");
}

TEST(Binary, RefusesWhatDoesNotFit) {
  const TensorType f{DType::kF32, {4}};
  EXPECT_THROW(run_op({.op = "add", .inputs = {f, {DType::kF32, {3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "add", .inputs = {f, {DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "add", .inputs = {f}}), UserError);
  EXPECT_THROW(run_op({.op = "pow", .inputs = {{DType::kBool, {4}}, {DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "add", .inputs = {{DType::kBool, {4}}, {DType::kBool, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "less", .inputs = {{DType::kBool, {4}}, {DType::kBool, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "and", .inputs = {f, f}}), UserError);
  EXPECT_THROW(run_op({.op = "max_grad", .inputs = {f, {DType::kF32, {2, 4}}, f}}), UserError);
}

TEST(Binary, EmptyTensors) {
  for (const char* op : {"add", "pow", "less"}) {
    const auto out = run_op({.op = op, .inputs = {{DType::kF32, {0, 3}}, {DType::kF32, {3}}}});
    EXPECT_EQ(out[0].type.shape.text(), "[0,3]");
  }
}

}  // namespace
}  // namespace neap
