#include "ops/unary/unary.h"

#include <bit>
#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Function {
  std::string op;
  double low = -3;
  double high = 3;
  Attrs attrs = {};
  bool has_slope = true;
};

std::vector<Function> functions() {
  return {{"elu", -3, 3, {{"alpha", 1.3}}},
          {"selu"},
          {"celu", -3, 3, {{"alpha", 0.7}}},
          {"hard_swish", -2.9, 2.9},
          {"softplus", -30, 30},
          {"softsign"},
          {"mish", -30, 30},
          {"gelu", -6, 6},
          {"gelu", -6, 6, {{"approximate", std::string("tanh")}}},
          {"silu", -30, 30},
          {"sigmoid", -10, 10},
          {"tanh"},
          {"erf"},
          {"exp"},
          {"log", 0.5, 3},
          {"log1p", -0.5, 2},
          {"sqrt", 0.5, 3},
          {"rsqrt", 0.5, 3},
          {"reciprocal", 0.5, 3},
          {"neg"},
          {"abs", 0.1, 3},
          {"abs", -3, -0.1},
          {"square"},
          {"sin"},
          {"cos"},
          {"tan", -1, 1},
          {"asin", -0.8, 0.8},
          {"acos", -0.8, 0.8},
          {"atan"},
          {"sinh"},
          {"cosh"},
          {"asinh"},
          {"acosh", 1.5, 3},
          {"atanh", -0.8, 0.8},
          {"floor", -9, 9, {}, false},
          {"ceil", -9, 9, {}, false},
          {"round", -9, 9, {}, false},
          {"sign", -9, 9, {}, false}};
}

TEST(Unary, KernelsAgreeAndGradientHolds) {
  for (const Function& f : functions()) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 5, 17}, Shape{4099}}) {
      OpCase c{
          .op = f.op, .inputs = {{DType::kF32, shape}}, .attrs = f.attrs, .low = f.low, .high = f.high, .step = 1e-3};
      if (!f.has_slope) c.constant = {0};
      if (shape.count() < 1000) check_op(c);
      check_kernels(c);
    }
  }
}

TEST(Unary, GradientKernelsAgree) {
  for (const Function& f : functions()) {
    if (find_op(f.op + "_grad") == nullptr) continue;
    const TensorType type{DType::kF32, {3, 7, 211}};
    check_op({.op = f.op + "_grad", .inputs = {type, type}, .attrs = f.attrs, .low = f.low, .high = f.high});
  }
}

TEST(Unary, InPlaceAndOnAnyNumberOfThreads) {
  for (const Function& f : functions()) {
    const OpCase c{.op = f.op, .inputs = {{DType::kF32, {5, 4001}}}, .attrs = f.attrs, .low = f.low, .high = f.high};
    check_in_place(c);
    check_threads(c);
    if (find_op(f.op + "_grad") == nullptr) continue;
    OpCase grad = c;
    grad.op += "_grad";
    grad.inputs.push_back(c.inputs[0]);
    check_in_place(grad);
  }
}

// Every build that this CPU can run, at the edges of the number range, against the standard library in double.
class UnaryEdges : public testing::TestWithParam<Isa> {
 protected:
  const UnaryTable& table() const {
    return GetParam() == Isa::kBase ? isa_base::unary_table()
           : GetParam() == Isa::kV3 ? isa_v3::unary_table()
                                    : isa_v4::unary_table();
  }
};

std::vector<Isa> runnable() {
  std::vector<Isa> all;
  for (const Isa each : {Isa::kBase, Isa::kV3, Isa::kV4}) {
    if (each <= isa()) all.push_back(each);
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Isa>& build) {
  return build.param == Isa::kBase ? "base" : build.param == Isa::kV3 ? "v3" : "v4";
}

INSTANTIATE_TEST_SUITE_P(Builds, UnaryEdges, testing::ValuesIn(runnable()), name_of);

std::vector<float> edges() {
  std::vector<float> all = {0.0F,       -0.0F,       kInf,    -kInf,      kNan,        0x1p-149F, -0x1p-149F,
                            0x1p-126F,  1e-40F,      -1e-40F, 3.4028e38F, -3.4028e38F, 1.0F,      -1.0F,
                            2.0F,       0.5F,        -0.5F,   1.5F,       -1.5F,       2.5F,      -2.5F,
                            1e-8F,      -1e-8F,      1e-4F,   -1e-4F,     88.7F,       88.8F,     -88.0F,
                            -104.5F,    16.5F,       -16.5F,  20.5F,      -111.0F,     1e10F,     -1e10F,
                            8388608.5F, -4194304.5F, 0.9999F, -0.9999F,   3.0F,        -3.0F,     2147483904.0F};
  for (int i = -400; i <= 400; ++i) all.push_back(static_cast<float>(i) * 0.0371F);
  return all;
}

// Formulas that take a difference near 1 lose relative accuracy where the result fades out.
// x sigmoid(x) does so among the denormals only.
double floor_of(const std::string& op) {
  if (op == "gelu") return 1e-6;
  return op == "silu" || op == "mish" ? 1e-43 : 3e-45;
}
bool keeps_signed_zero(const std::string& op) {
  for (const char* name : {"sqrt", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "tanh", "erf", "log1p",
                           "floor", "ceil", "round", "neg", "abs", "softsign", "reciprocal"}) {
    if (op == name) return true;
  }
  return false;
}

bool is_close(float got, float want, double floor) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(static_cast<double>(got) - want) <= 1.5e-6 * std::abs(want) + floor;
}

TEST_P(UnaryEdges, ForwardAsTheStandardLibrary) {
  const std::vector<float> x = edges();
  const Shape shape = {static_cast<std::int64_t>(x.size())};
  for (const Function& f : functions()) {
    const OpCase c{.op = f.op, .inputs = {{DType::kF32, shape}}, .attrs = f.attrs, .given = {{0, tensor_of(shape, x)}}};
    const auto want = run_op(c, "ref");
    OpCall call{.op = &op_named(f.op), .attrs = f.attrs, .inputs = {TensorType{DType::kF32, shape}}};
    const ops::UnaryCall unary = ops::unary_call(call);
    std::vector<float> got(x.size());
    table().forward[static_cast<int>(unary.fn)](x.data(), got.data(), shape.count(), unary.args);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float expected = want[0].floats()[i];
      EXPECT_TRUE(is_close(got[i], expected, floor_of(f.op)))
          << f.op << "(" << x[i] << ") = " << got[i] << ", expected " << expected;
      if (expected == 0 && keeps_signed_zero(f.op)) {
        EXPECT_EQ(std::signbit(got[i]), std::signbit(expected)) << f.op << "(" << x[i] << ")";
      }
    }
  }
}

TEST_P(UnaryEdges, BackwardAsTheStandardLibrary) {
  const std::vector<float> x = edges();
  const Shape shape = {static_cast<std::int64_t>(x.size())};
  const std::vector<float> ones(x.size(), 1.0F);
  for (const Function& f : functions()) {
    const OpDef* op = find_op(f.op + "_grad");
    if (op == nullptr) continue;
    const TensorType type{DType::kF32, shape};
    const OpCase c{.op = f.op + "_grad",
                   .inputs = {type, type},
                   .attrs = f.attrs,
                   .given = {{0, tensor_of(shape, ones)}, {1, tensor_of(shape, x)}}};
    const auto want = run_op(c, "ref");
    const ops::UnaryCall unary = ops::unary_call({.op = op, .attrs = f.attrs, .inputs = {type, type}});
    std::vector<float> got(x.size());
    table().backward[static_cast<int>(unary.fn)](ones.data(), x.data(), got.data(), shape.count(), unary.args);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(is_close(got[i], want[0].floats()[i], 1e-6))
          << f.op << "'(" << x[i] << ") = " << got[i] << ", expected " << want[0].floats()[i];
    }
  }
}

TEST(Unary, RoundsHalvesToEven) {
  const auto out = run_op({.op = "round",
                           .inputs = {{DType::kF32, {6}}},
                           .given = {{0, tensor_of({6}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 8388609.0F})}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0, 2, 2, 0, -2, 8388609.0F}));
}

TEST(Unary, Integers) {
  HostTensor x({DType::kI64, {3}});
  x.as<std::int64_t>()[0] = -5;
  x.as<std::int64_t>()[1] = 7;
  x.as<std::int64_t>()[2] = std::numeric_limits<std::int64_t>::min();
  const auto one = [&](const std::string& op, int i) {
    auto out = run_op({.op = op, .inputs = {x.type}, .given = {{0, x}}});
    return out[0].as<std::int64_t>()[i];
  };
  EXPECT_EQ(one("neg", 0), 5);
  EXPECT_EQ(one("abs", 0), 5);
  EXPECT_EQ(one("sign", 0), -1);
  EXPECT_EQ(one("square", 1), 49);
  EXPECT_EQ(one("neg", 2), std::numeric_limits<std::int64_t>::min());
}

TEST(Unary, Predicates) {
  const HostTensor x = tensor_of({5}, {1.0F, kNan, kInf, -kInf, -0.0F});
  const auto bytes = [&](const std::string& op, Attrs attrs = {}) {
    auto out = run_op({.op = op, .inputs = {x.type}, .attrs = std::move(attrs), .given = {{0, x}}});
    EXPECT_EQ(out[0].type.dtype, DType::kBool);
    return std::vector<int>(out[0].as<std::uint8_t>(), out[0].as<std::uint8_t>() + 5);
  };
  EXPECT_EQ(bytes("is_nan"), (std::vector<int>{0, 1, 0, 0, 0}));
  EXPECT_EQ(bytes("is_inf"), (std::vector<int>{0, 0, 1, 1, 0}));
  EXPECT_EQ(bytes("is_inf", {{"detect_negative", 0}}), (std::vector<int>{0, 0, 1, 0, 0}));
  auto flipped = run_op({.op = "not", .inputs = {{DType::kBool, {9}}}});
  const HostTensor before = random_tensor({DType::kBool, {9}}, 100);
  for (int i = 0; i < 9; ++i) EXPECT_NE(flipped[0].data[i], before.data[i]);
}

TEST(Unary, IdentityIsAView) {
  const OpDef& op = op_named("identity");
  const OpCall call{.op = &op, .inputs = {TensorType{DType::kI32, {3, 2}}}, .outputs = {{DType::kI32, {3, 2}}}};
  EXPECT_EQ(op.view_offset(call), 0);
  check_op({.op = "identity", .inputs = {{DType::kF32, {3, 2}}}});
}

TEST(Unary, SymbolicShapesPass) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), 4});
  EXPECT_EQ(g.shape(g("gelu", {x})).text(), "[batch,4]");
}

TEST(Unary, RefusesWhatDoesNotFit) {
  EXPECT_THROW(run_op({.op = "exp", .inputs = {{DType::kI32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "neg", .inputs = {{DType::kBool, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "not", .inputs = {{DType::kF32, {4}}}}), UserError);
  EXPECT_THROW(run_op({.op = "elu", .inputs = {{DType::kF32, {4}}}, .attrs = {{"alpha", -1.0}}}), UserError);
  EXPECT_THROW(run_op({.op = "celu", .inputs = {{DType::kF32, {4}}}, .attrs = {{"alpha", 0.0}}}), UserError);
  EXPECT_THROW(run_op({.op = "gelu", .inputs = {{DType::kF32, {4}}}, .attrs = {{"approximate", std::string("fast")}}}),
               UserError);
  EXPECT_THROW(run_op({.op = "tanh_grad", .inputs = {{DType::kF32, {4}}, {DType::kF32, {5}}}}), UserError);
}

}  // namespace
}  // namespace neap
