// If, Loop and Scan vanish into what they compute.
#include "onnx/limits.h"
#include "onnx/model_testing.h"

namespace neap::onnx::testing {
namespace {

pb::GraphProto one_node(const std::string& op, const std::string& input, const std::string& output) {
  Maker m;
  return m.node(op, input, output).output(output).graph();
}

Maker choice(const std::string& condition) {
  Maker m;
  m.input("x", "batch 4").truth("yes", true).truth("no", false).number("zero", 0);
  m.node("ReduceSum", "x", "s", {{"keepdims", 0}}).node("Greater", "s zero", "data").node("Shape", "x", "shape");
  m.integer("four", 4)
      .integer("one", 1)
      .node("Gather", "shape one", "columns")
      .node("Equal", "columns four", "is_four");
  m.node("If", condition, "y",
         {{"then_branch", one_node("Relu", "x", "a")}, {"else_branch", one_node("Tanh", "x", "b")}});
  m.output("y");
  return m;
}

TEST(OnnxControl, IfTakesOneBranch) {
  for (const auto& [condition, op] : {std::pair{"yes", "relu"}, {"no", "tanh"}, {"is_four", "relu"}}) {
    Maker m = choice(condition);
    const Graph g = import_plain(m);
    EXPECT_EQ(count(g, "relu") + count(g, "tanh"), 1);
    EXPECT_EQ(count(g, op), 1) << condition;
  }
}

TEST(OnnxControl, IfOnDataIsAnError) {
  Maker m = choice("data");
  expect_user_error([&] { import_plain(m); }, {"If_y", "'data'", "before training"});
}

TEST(OnnxControl, ProblemsInsideNameBothNodes) {
  Maker m;
  m.input("x", "batch 4").truth("yes", true);
  m.node("If", "yes", "y",
         {{"then_branch", one_node("Frobnicate", "x", "a")}, {"else_branch", one_node("Tanh", "x", "b")}});
  m.output("y");
  expect_user_error([&] { import_plain(m); }, {"Frobnicate_a", "If_y"});
}

TEST(OnnxControl, SubgraphReadsTheNamesAroundIt) {
  Maker m;
  m.input("x", "batch 4").weight("w", {4, 4}).truth("yes", true).node("MatMul", "x w", "h");
  m.node("If", "yes", "y",
         {{"then_branch", one_node("Relu", "h", "a")}, {"else_branch", one_node("Relu", "nowhere", "b")}});
  m.output("y");
  EXPECT_EQ(ops(import_plain(m)), "linear relu");
}

// carried = carried * w + i; scanned: carried
pb::GraphProto loop_body(bool goes_on) {
  Maker m;
  m.graph().add_input()->set_name("i");
  m.graph().add_input()->set_name("go");
  m.graph().add_input()->set_name("carried");
  m.truth("answer", goes_on)
      .node("Cast", "i", "f", {{"to", 1}})
      .node("Mul", "carried w", "p")
      .node("Add", "p f", "next");
  m.node("Identity", "answer", "on").node("Identity", "next", "seen");
  return m.output("on next seen").graph();
}

Maker loop(std::int64_t trips, const std::string& inputs, bool goes_on = true) {
  Maker m;
  m.input("x", "batch 4").weight("w", {4}).integer("trips", trips).truth("yes", true).truth("no", false);
  m.node("Loop", inputs, "last all", {{"body", loop_body(goes_on)}}).output("last all");
  return m;
}

TEST(OnnxControl, LoopIsLaidOut) {
  Maker m = loop(3, "trips yes x");
  const Graph g = import_plain(m);
  EXPECT_EQ(count(g, "mul"), 3);
  EXPECT_EQ(count(g, "concat"), 1);
  EXPECT_EQ(g.at(*g.output("all")).type.shape.text(), "[3,2,4]");
  EXPECT_EQ(g.with_role(Role::kParameter).size(), 1U);  // one weight, whatever the runs
  const HostTensor zero({DType::kF32, {2, 4}});
  const auto out = results(g, {{"x", zero}});
  const float w = *reinterpret_cast<const float*>(tensor_of(g, "w").data->data());
  EXPECT_NEAR(out[0].floats()[0], 1 * w + 2, 1e-6);  // ((0 w + 0) w + 1) w + 2
  EXPECT_NEAR(out[1].floats()[8], 1, 1e-6);
}

TEST(OnnxControl, LoopEndsWhenTheBodySaysSo) {
  Maker m = loop(9, "trips yes x", false);
  EXPECT_EQ(count(import_plain(m), "mul"), 1);
  Maker endless = loop(9, "_ yes x", false);
  EXPECT_EQ(count(import_plain(endless), "mul"), 1);
}

TEST(OnnxControl, LoopOfNoRunsHandsItsStateOn) {
  Maker m = loop(3, "trips no x");
  m.graph().mutable_output()->RemoveLast();
  m.graph().mutable_node(0)->mutable_output()->RemoveLast();
  EXPECT_EQ(ops(import_plain(m)), "");
}

TEST(OnnxControl, EndlessLoopsAreErrors) {
  for (const char* inputs : {"trips yes x", "_ _ x"}) {
    Maker m = loop(1LL << 60, inputs);
    expect_user_error([&] { import_plain(m); }, {"Loop_last", std::to_string(kMaxRuns)});
  }
}

TEST(OnnxControl, NestedLoopsAreBounded) {
  Maker outer_body;
  for (const char* name : {"i2", "go2", "c2"}) outer_body.graph().add_input()->set_name(name);
  outer_body.node("Loop", "trips yes c2", "inner", {{"body", loop_body(true)}})
      .node("Identity", "go2", "on2")
      .output("on2 inner");
  outer_body.graph().mutable_node(0)->add_output("unused");
  Maker m;
  m.input("x", "batch 4").weight("w", {4}).integer("trips", 4000).truth("yes", true);
  m.node("Loop", "trips yes x", "y", {{"body", outer_body.graph()}}).output("y");
  expect_user_error([&] { import_plain(m); }, {"nodes"});
}

TEST(OnnxControl, DeepNestingIsAnError) {
  pb::GraphProto inner = one_node("Relu", "x", "deepest");
  for (int i = 0; i < 40; ++i) {
    Maker level;
    const std::string out = "o" + std::to_string(i);
    inner = level.node("If", "yes", out, {{"then_branch", inner}, {"else_branch", one_node("Tanh", "x", "e")}})
                .output(out)
                .graph();
  }
  Maker m;
  m.input("x", "batch 4")
      .truth("yes", true)
      .node("If", "yes", "y", {{"then_branch", inner}, {"else_branch", inner}})
      .output("y");
  expect_user_error([&] { import_plain(m); }, {"deep"});
}

pb::GraphProto scan_body() {
  Maker m;
  m.graph().add_input()->set_name("sum");
  m.graph().add_input()->set_name("row");
  m.node("Add", "sum row", "next").node("Identity", "next", "seen").output("next seen");
  return m.graph();
}

TEST(OnnxControl, ScanIsARunningSum) {
  for (const bool reverse : {false, true}) {
    Maker m;
    m.input("start", "2 4").input("x", "2 3 4");
    m.node("Scan", "start x", "sum sums",
           {{"body", scan_body()},
            {"num_scan_inputs", 1},
            {"scan_input_axes", Ints{1}},
            {"scan_output_axes", Ints{1}},
            {"scan_input_directions", Ints{reverse ? 1 : 0}},
            {"scan_output_directions", Ints{reverse ? 1 : 0}}});
    m.output("sum sums");
    Maker plain;
    plain.input("start", "2 4")
        .input("x", "2 3 4")
        .integer("axis", 1)
        .ints("one", {1})
        .node("CumSum", "x axis", "c", {{"reverse", reverse ? 1 : 0}});
    plain.node("Unsqueeze", "start one", "s")
        .node("Add", "c s", "sums")
        .ints("axes", {1})
        .node("ReduceSum", "x axes", "t", {{"keepdims", 0}});
    plain.node("Add", "t start", "sum").output("sum sums");
    expect_same_results(import_plain(plain), import_plain(m));
  }
}

TEST(OnnxControl, BadScansAreErrors) {
  for (const std::int64_t count : Ints{0, -1, 9, INT64_MIN}) {
    Maker m;
    m.input("start", "2 4").input("x", "2 3 4");
    m.node("Scan", "start x", "sum sums", {{"body", scan_body()}, {"num_scan_inputs", count}}).output("sum sums");
    expect_user_error([&] { import_plain(m); }, {"Scan_sum"});
  }
}

}  // namespace
}  // namespace neap::onnx::testing
