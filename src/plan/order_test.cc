#include "plan/order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/device.h"
#include "graph/op.h"
#include "neap/builtin_models.h"
#include "plan/validate.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"
#include "train/setup.h"

namespace neap {
namespace {

// Two recurrent layers in chunks, whose outputs are one tensor for the head: a concatenation without a call.
class OrderOfAPlan : public ::testing::Test {
 protected:
  OrderOfAPlan() : program_(make_program(*make_null_device())) {}

  static Program make_program(Device& device) {
    TrainOptions options;
    options.batch = 4;
    options.length = 64;
    const auto model = open_builtin_model("lstm-lm:hidden=64,vocab=64");
    return prepare(build_training(make_spec(model, options), options), device);
  }

  Plan plan_of(const Decisions& decisions) const {
    return std::get<Plan>(make_plan(program_.graph, program_.costs, decisions, kNoBudget));
  }

  static bool calls(const Plan& plan, NodeId id) {
    return std::ranges::any_of(plan.instructions,
                               [&](const Instruction& in) { return is_call(in.action) && in.node == id; });
  }

  // Forward's, which a plan does not call.
  std::vector<NodeId> uncalled_concatenations(const Plan& plan) const {
    std::vector<NodeId> out;
    for (std::uint32_t i = 0; i < program_.graph.nodes.size(); ++i) {
      if (program_.graph.nodes[i].op->name == "concat" && !calls(plan, {i})) out.push_back({i});
    }
    return out;
  }

  Program program_;
};

TEST_F(OrderOfAPlan, PutsConcatenationsWithoutACallBetweenTheirPartsAndTheirReaders) {
  const Plan plan = plan_of({});
  const std::vector<NodeId> elided = uncalled_concatenations(plan);
  ASSERT_FALSE(elided.empty());
  const std::vector<NodeId> order = order_of(plan, program_.graph);
  const auto place = [&](NodeId id) { return std::ranges::find(order, id) - order.begin(); };
  for (const NodeId id : elided) {
    ASSERT_EQ(std::ranges::count(order, id), 1);
    const Node& node = program_.graph.at(id);
    for (const TensorId part : node.inputs) EXPECT_LT(place(program_.graph.at(part).producer), place(id));
    for (std::uint32_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const Node& reader = program_.graph.nodes[i];
      if (std::ranges::find(reader.inputs, node.outputs[0]) == reader.inputs.end() || !calls(plan, {i})) continue;
      EXPECT_LT(place(id), place({i}));
    }
  }
}

TEST_F(OrderOfAPlan, IsThatOfThePlanMadeFromIt) {
  const Plan kept = plan_of({});
  Decisions again;
  again.order = order_of(kept, program_.graph);
  const Plan second = plan_of(again);
  EXPECT_FALSE(validate(second, program_.graph, program_.costs));
  EXPECT_EQ(second.peak_bytes, kept.peak_bytes);
  EXPECT_EQ(order_of(second, program_.graph), again.order);
}

TEST_F(OrderOfAPlan, HasWhatIsComputedAgainTwice) {
  Decisions decisions;
  decisions.residency.assign(program_.graph.tensors.size(), Residency::kKeep);
  for (const Node& node : program_.graph.nodes) {
    if (node.phase != Phase::kForward || !node.op->cheap) continue;
    for (const TensorId id : node.outputs) decisions.residency[id.index] = Residency::kRecompute;
  }
  const Plan first = plan_of(decisions);
  Decisions again;
  again.order = order_of(first, program_.graph);
  std::vector<NodeId> sorted = again.order;
  std::ranges::sort(sorted, {}, &NodeId::index);
  ASSERT_NE(std::ranges::adjacent_find(sorted), sorted.end()) << "nothing is computed again";
  const Plan second = plan_of(again);
  EXPECT_FALSE(validate(second, program_.graph, program_.costs));
  EXPECT_EQ(order_of(second, program_.graph), again.order);
}

}  // namespace
}  // namespace neap
