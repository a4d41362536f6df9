#include "ops/reduce/reduce.h"

#include <cmath>
#include <limits>

#include "ops/elementwise/in_place_check.h"

namespace neap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const char* const kOps[] = {"reduce_sum", "reduce_mean", "reduce_max",         "reduce_min",       "reduce_prod",
                            "reduce_l1",  "reduce_l2",   "reduce_log_sum_exp", "reduce_sum_square"};

struct Case {
  Shape shape;
  Ints axes;
};
std::vector<Case> small_cases() {
  return {{{}, {}},
          {{1}, {0}},
          {{7}, {0}},
          {{5, 3}, {0}},
          {{5, 3}, {1}},
          {{5, 3}, {}},
          {{5, 3}, {-1}},
          {{2, 3, 4}, {1}},
          {{2, 3, 4}, {0, 2}},
          {{2, 3, 4}, {0, 1}},
          {{2, 3, 4}, {2, 1}},
          {{2, 3, 2, 3}, {0, 2}},
          {{2, 3, 2, 3}, {1, 3}},
          {{1, 4, 1, 5}, {0, 2}},
          {{33, 1}, {1}}};
}
std::vector<Case> large_cases() {
  return {{{20001}, {0}},      {{700, 40}, {0}},       {{700, 40}, {1}},
          {{3, 9001}, {1}},    {{9001, 3}, {0}},       {{130, 1100}, {0}},
          {{2, 300, 70}, {1}}, {{2, 300, 70}, {0, 2}}, {{5, 7, 11, 13, 3}, {1, 3}},
          {{300, 100}, {}}};
}

TEST(Reduce, KernelsAgreeAndGradientsHold) {
  for (const char* op : kOps) {
    for (const std::int64_t keepdims : {0, 1}) {
      for (const Case& each : small_cases()) {
        OpCase c{
            .op = op, .inputs = {{DType::kF32, each.shape}}, .attrs = {{"axes", each.axes}, {"keepdims", keepdims}}};
        c.low = 0.5;
        c.high = 1.6;
        c.step = 1e-3;
        check_op(c);
      }
    }
  }
}

TEST(Reduce, LargeOnesAgree) {
  for (const char* op : kOps) {
    for (const Case& each : large_cases()) {
      OpCase c{.op = op, .inputs = {{DType::kF32, each.shape}}, .attrs = {{"axes", each.axes}, {"keepdims", 0}}};
      if (std::string(op) == "reduce_prod") {  // many factors: near 1
        c.low = 0.99;
        c.high = 1.01;
      }
      check_kernels(c);
      check_threads(c);
    }
  }
}

// Written out anew, by coordinates.
TEST(Reduce, SumsTheRightElements) {
  const Shape shape = {3, 4, 5, 2};
  const HostTensor x = random_tensor({DType::kF32, shape}, 100);
  for (int mask = 1; mask < 16; ++mask) {
    Ints axes;
    std::map<std::vector<int>, double> want;
    for (int a = 0; a < 4; ++a) {
      if ((mask >> a & 1) != 0) axes.push_back(a);
    }
    for (int i = 0; i < 120; ++i) {
      std::vector<int> at = {i / 40, i / 10 % 4, i / 2 % 5, i % 2};
      for (const std::int64_t a : axes) at[static_cast<std::size_t>(a)] = 0;
      want[at] += x.floats()[i];
    }
    const auto out = run_op({.op = "reduce_sum", .inputs = {x.type}, .attrs = {{"axes", axes}}, .given = {{0, x}}});
    ASSERT_EQ(out[0].type.elements(), static_cast<std::int64_t>(want.size()));
    int i = 0;
    for (const auto& [at, sum] : want) EXPECT_NEAR(out[0].floats()[i++], sum, 1e-5);
  }
}

TEST(Reduce, SumsStayExactWhereF32WouldNot) {
  const std::int64_t n = 1 << 20;
  std::vector<float> x(static_cast<std::size_t>(n), 0.1F);
  x[0] = 1e8F;
  const auto out = run_op({.op = "reduce_sum", .inputs = {{DType::kF32, {n}}}, .given = {{0, tensor_of({n}, x)}}});
  EXPECT_NEAR(out[0].floats()[0], 1e8 + 0.1 * (n - 1), 8);
}

TEST(Reduce, SpecialValues) {
  const auto one = [](const std::string& op, const std::vector<float>& x) {
    const Shape shape = {static_cast<std::int64_t>(x.size())};
    float got = 0;
    for (const char* kernel : {"ref", "simd"}) {
      got = run_op({.op = op, .inputs = {{DType::kF32, shape}}, .given = {{0, tensor_of(shape, x)}}}, kernel)[0]
                .floats()[0];
      if (std::string(kernel) == "ref" && std::isnan(got)) return got;
    }
    return got;
  };
  EXPECT_EQ(one("reduce_log_sum_exp", {-kInf, -kInf}), -kInf);
  EXPECT_EQ(one("reduce_log_sum_exp", {kInf, 1}), kInf);
  EXPECT_NEAR(one("reduce_log_sum_exp", {1000, 1000}), 1000 + std::log(2.0), 1e-4);
  EXPECT_TRUE(std::isnan(one("reduce_log_sum_exp", {kNan, 1})));
  EXPECT_TRUE(std::isnan(one("reduce_max", {1, kNan, 2})));
  EXPECT_TRUE(std::isnan(one("reduce_min", {kNan, 1, 2})));
  EXPECT_EQ(one("reduce_max", {-kInf, -3, -kInf}), -3);
  EXPECT_EQ(one("reduce_sum_square", {3e38F, 1}), kInf);
  EXPECT_NEAR(one("reduce_l2", {3e30F, 4e30F}), 5e30F, 1e24F);  // the squares overflow f32, not double
}

TEST(Reduce, SimdPropagatesNanAndInfinities) {
  for (const char* op : kOps) {
    for (const Ints& axes : {Ints{0}, Ints{1}}) {
      OpCase c{.op = op, .inputs = {{DType::kF32, {19, 21}}}, .attrs = {{"axes", axes}}};
      c.given[0] = random_tensor(c.inputs[0], 7);
      c.given[0].floats()[5 * 21 + 20] = kNan;
      c.given[0].floats()[6 * 21 + 3] = kInf;
      c.given[0].floats()[7 * 21 + 4] = -kInf;
      check_kernels(c);
    }
  }
}

TEST(Reduce, EmptyAxes) {
  const auto out =
      run_op({.op = "reduce_sum", .inputs = {{DType::kF32, {0, 3}}}, .attrs = {{"axes", Ints{0}}, {"keepdims", 0}}});
  EXPECT_EQ(values_of(out[0]), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(
      run_op({.op = "reduce_max", .inputs = {{DType::kF32, {3, 0}}}, .attrs = {{"axes", Ints{1}}}})[0].floats()[1],
      -kInf);
  EXPECT_EQ(
      run_op({.op = "reduce_sum", .inputs = {{DType::kF32, {0, 3}}}, .attrs = {{"axes", Ints{1}}}})[0].type.elements(),
      0);
}

TEST(Reduce, GradientsOfTiesAndZeros) {
  const auto grad = [](const std::string& op, const std::vector<float>& x, float y) {
    const Shape shape = {static_cast<std::int64_t>(x.size())};
    OpCase c{.op = op, .inputs = {{DType::kF32, {1}}, {DType::kF32, shape}, {DType::kF32, {1}}}};
    c.given = {{0, tensor_of({1}, {6})}, {1, tensor_of(shape, x)}, {2, tensor_of({1}, {y})}};
    if (op == "reduce_prod_grad") c.inputs.pop_back();
    check_kernels(c);
    return values_of(run_op(c)[0]);
  };
  EXPECT_EQ(grad("reduce_max_grad", {1, 3, 3, 2}, 3), (std::vector<float>{0, 3, 3, 0}));
  EXPECT_EQ(grad("reduce_min_grad", {1, 3, 1, 1}, 1), (std::vector<float>{2, 0, 2, 2}));
  EXPECT_EQ(grad("reduce_prod_grad", {2, 3, 5}, 0), (std::vector<float>{90, 60, 36}));
  EXPECT_EQ(grad("reduce_prod_grad", {2, 0, 5}, 0), (std::vector<float>{0, 60, 0}));
  EXPECT_EQ(grad("reduce_prod_grad", {0, 0, 5}, 0), (std::vector<float>{0, 0, 0}));
}

TEST(Reduce, GradientKernelsAgreeOnLargeShapes) {
  for (const char* op :
       {"reduce_max", "reduce_prod", "reduce_l1", "reduce_l2", "reduce_log_sum_exp", "reduce_sum_square"}) {
    for (const Case& each : {Case{{60, 90}, {0}}, Case{{60, 90}, {1}}, Case{{6, 31, 20}, {0, 2}}}) {
      const Attrs attrs = {{"axes", each.axes}, {"keepdims", 0}};
      OpCase forward{.op = op, .inputs = {{DType::kF32, each.shape}}, .attrs = attrs, .low = 0.95, .high = 1.05};
      const HostTensor y = run_op(forward)[0];
      OpCase c{.op = std::string(op) + "_grad", .inputs = {y.type, {DType::kF32, each.shape}, y.type}, .attrs = attrs};
      c.given = {{1, random_tensor({DType::kF32, each.shape}, 100, 0.95, 1.05)}, {2, y}};
      check_kernels(c);
      check_in_place(c);
      check_threads(c);
    }
  }
}

TEST(SumTo, UndoesABroadcast) {
  struct Pair {
    Shape from, to;
  };
  for (const Pair& p :
       {Pair{{3, 4}, {4}}, Pair{{3, 4}, {3, 1}}, Pair{{3, 4}, {}}, Pair{{2, 3, 4}, {3, 1}}, Pair{{2, 3, 4}, {2, 1, 4}},
        Pair{{2, 3, 4}, {2, 3, 4}}, Pair{{5, 1, 4}, {1, 1}}, Pair{{600, 70}, {70}}}) {
    const OpCase c{.op = "sum_to", .inputs = {{DType::kF32, p.from}}, .attrs = {{"shape", p.to}}};
    p.from.count() < 1000 ? check_op(c) : check_kernels(c);
    EXPECT_EQ(run_op(c)[0].type.shape, p.to);
  }
  EXPECT_THROW(run_op({.op = "sum_to", .inputs = {{DType::kF32, {3, 4}}}, .attrs = {{"shape", Shape{3}}}}), UserError);
  EXPECT_THROW(run_op({.op = "sum_to", .inputs = {{DType::kF32, {4}}}, .attrs = {{"shape", Shape{3, 4}}}}), UserError);
}

TEST(SumTo, IsAViewWhenNothingIsSummed) {
  const OpDef& op = op_named("sum_to");
  OpCall call{.op = &op, .attrs = {{"shape", Shape{4}}}, .inputs = {TensorType{DType::kF32, {1, 4}}}};
  EXPECT_EQ(op.view_offset(call), 0);
  call.inputs[0] = TensorType{DType::kF32, {2, 4}};
  EXPECT_EQ(op.view_offset(call), std::nullopt);
}

TEST(Reduce, SymbolicShapes) {
  Builder g;
  const Value x = g.input("x", DType::kF32, {Dim::symbol("batch"), Dim::symbol("time"), 8});
  EXPECT_EQ(g.shape(g("reduce_mean", {x}, {{"axes", Ints{1}}, {"keepdims", 0}})).text(), "[batch,8]");
  EXPECT_EQ(g.shape(g("reduce_max", {x}, {{"axes", Ints{-1}}})).text(), "[batch,time,1]");
  EXPECT_EQ(g.shape(g("reduce_sum", {x}, {{"keepdims", 0}})).text(), "[]");
  EXPECT_EQ(g.shape(g("sum_to", {x}, {{"shape", Shape{Dim(8)}}})).text(), "[8]");
  EXPECT_EQ(g.shape(g("argmax", {x}, {{"axis", -1}, {"keepdims", 0}})).text(), "[batch,time]");
}

TEST(Reduce, RefusesWhatDoesNotFit) {
  const TensorType f{DType::kF32, {4, 5}};
  EXPECT_THROW(run_op({.op = "reduce_sum", .inputs = {f}, .attrs = {{"axes", Ints{2}}}}), UserError);
  EXPECT_THROW(run_op({.op = "reduce_sum", .inputs = {f}, .attrs = {{"axes", Ints{1, -1}}}}), UserError);
  EXPECT_THROW(run_op({.op = "reduce_sum", .inputs = {{DType::kBool, {4}}}}), UserError);
}

TEST(Cumsum, AsItsNameSays) {
  const HostTensor x = tensor_of({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](Attrs attrs) {
    return values_of(run_op({.op = "cumsum", .inputs = {x.type}, .attrs = std::move(attrs), .given = {{0, x}}})[0]);
  };
  EXPECT_EQ(run({{"axis", 1}}), (std::vector<float>{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(run({{"axis", 0}}), (std::vector<float>{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(run({{"axis", 1}, {"exclusive", 1}}), (std::vector<float>{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(run({{"axis", -1}, {"reverse", 1}}), (std::vector<float>{6, 5, 3, 15, 11, 6}));
  for (const std::int64_t exclusive : {0, 1}) {
    for (const std::int64_t reverse : {0, 1}) {
      const OpCase c{.op = "cumsum",
                     .inputs = {{DType::kF32, {3, 5, 150}}},
                     .attrs = {{"axis", 1}, {"exclusive", exclusive}, {"reverse", reverse}}};
      check_op(c);
      check_in_place(c);
    }
  }
  EXPECT_THROW(run({{"axis", 2}}), UserError);
}

}  // namespace
}  // namespace neap
