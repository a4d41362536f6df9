#include "train/contradictions.h"

#include <gtest/gtest.h>

#include "neap/error.h"

namespace neap {
namespace {

struct Case {
  const char* says;  // how the line begins; empty: the settings go together
  std::function<void(TrainOptions&)> set;
  GivenFlags given = {};
};

const Case kCases[] = {
    {"", [](TrainOptions&) {}},
    {"--resume needs --checkpoint", [](TrainOptions& o) { o.resume = true; }},
    {"", [](TrainOptions& o) { o.resume = true, o.checkpoint = "run"; }},
    {"--checkpoint-every", [](TrainOptions&) {}, {"checkpoint-every"}},
    {"", [](TrainOptions& o) { o.checkpoint = "run"; }, {"checkpoint-every"}},
    {"--eval-every", [](TrainOptions&) {}, {"eval-every"}},
    {"", [](TrainOptions& o) { o.eval = "test"; }, {"eval-every"}},
    {"", [](TrainOptions& o) { o.validation = 0.1; }, {"eval-every"}},
    {"--save-learnt: --policy greedy", [](TrainOptions& o) { o.policy = "greedy"; }, {"save-learnt"}},
    {"", [](TrainOptions&) {}, {"save-learnt"}},
    {"--learnt: --policy greedy", [](TrainOptions& o) { o.policy = "greedy"; }, {"learnt"}},
    {"--reward, --reward-weights and --every", [](TrainOptions& o) { o.policy = "oracle"; }, {"every"}},
    {"--reward, --reward-weights and --every", [](TrainOptions& o) { o.policy = "dtr"; }, {"reward-weights"}},
    {"", [](TrainOptions&) {}, {"learnt", "reward", "reward-weights", "every"}},
    {"--replay has the budgets", [](TrainOptions& o) { o.replay = "d.jsonl", o.budget_schedule = "5:min"; }},
    {"", [](TrainOptions& o) { o.replay = "d.jsonl", o.budget = "min"; }},

    {"--policy int8 rounds", [](TrainOptions& o) { o.policy = "int8"; }, {"tolerance"}},
    {"", [](TrainOptions& o) { o.policy = "int8"; }},
    {"", [](TrainOptions& o) { o.policy = "int8", o.precision.tolerance = "default"; }, {"tolerance"}},
    {"--precision-levels: --policy bf16", [](TrainOptions& o) { o.policy = "bf16"; }, {"precision-levels"}},
    {"--precision-table: --policy int4", [](TrainOptions& o) { o.policy = "int4"; }, {"precision-table"}},
    {"--flow-quantized", [](TrainOptions& o) { o.precision.flow_quantized = true; }},
    {"", [](TrainOptions& o) { o.precision.flow_quantized = true, o.precision.tolerance = "0.1"; }},
    {"", [](TrainOptions& o) { o.precision.flow_quantized = true, o.policy = "int8"; }},
    {"--quantize-recompute-inputs", [](TrainOptions& o) { o.precision.quantize_recompute_inputs = true; }},
    {"--precision-levels: nothing", [](TrainOptions&) {}, {"precision-levels"}},
    {"--default-precision", [](TrainOptions&) {}, {"profiling-window"}},
    {"", [](TrainOptions& o) { o.precision.tolerance = "default"; }, {"default-precision", "tolerance"}},
    {"", [](TrainOptions&) {}, {"precision-levels", "tolerance"}},  // a config file's, and an exact run to compare
    {"", [](TrainOptions&) {}, {"precision-choice"}},
    {"--precision-table and", [](TrainOptions& o) { o.precision.choice = "table"; }, {"precision-choice"}},
    {"--precision-table is read",
     [](TrainOptions& o) { o.precision.tolerance = "default"; },
     {"precision-table", "tolerance"}},
    {"",
     [](TrainOptions& o) { o.precision.tolerance = "default", o.precision.choice = "table"; },
     {"precision-table", "precision-choice", "tolerance"}},

    {"", [](TrainOptions& o) { o.host_ram = 1, o.policy = "sqrt"; }},

    {"--carry-state takes", [](TrainOptions& o) { o.carry_state = true; }, {"shuffle"}},
    {"", [](TrainOptions& o) { o.carry_state = true; }},
    {"", [](TrainOptions& o) { o.carry_state = true, o.shuffle = false; }, {"shuffle"}},
    {"--nesterov is of", [](TrainOptions& o) { o.optimizer.nesterov = true; }},
    {"", [](TrainOptions& o) { o.optimizer.nesterov = true, o.optimizer.name = "sgd"; }},
    {"--nesterov needs",
     [](TrainOptions& o) { o.optimizer.nesterov = true, o.optimizer.name = "sgd", o.optimizer.momentum = 0; }},
    {"--momentum is of --optimizer sgd, and this is adamw", [](TrainOptions&) {}, {"momentum"}},
    {"", [](TrainOptions& o) { o.optimizer.momentum = 0; }, {"momentum"}},
    {"", [](TrainOptions& o) { o.optimizer.name = "sgd"; }, {"momentum"}},
    {"--beta1", [](TrainOptions& o) { o.optimizer.name = "sgd"; }, {"epsilon"}},
    {"", [](TrainOptions& o) { o.optimizer.name = "adam"; }, {"beta1", "beta2", "epsilon"}},

    {"--recurrent-gears", [](TrainOptions& o) { o.recurrent.gear = "whole"; }, {"recurrent", "recurrent-gears"}},
    {"--recurrent-policy is for --recurrent adaptive, and --recurrent unrolled:4",
     [](TrainOptions& o) { o.recurrent.gear = "unrolled:4"; },
     {"recurrent", "recurrent-policy"}},
    {"", [](TrainOptions&) {}, {"recurrent-gears", "recurrent-policy"}},
};

TEST(Contradictions, AreSaidInOneLine) {
  for (const Case& each : kCases) {
    TrainOptions options;
    each.set(options);
    const std::string text = contradiction_in(options, each.given).value_or("");
    const std::string says = each.says;
    EXPECT_EQ(text.substr(0, says.size()), says) << text;
    EXPECT_EQ(text.empty(), says.empty()) << "wanted '" << says << "', got '" << text << "'";
    EXPECT_EQ(text.find_first_of("\n{"), std::string::npos) << text;
    if (says.empty()) {
      EXPECT_NO_THROW(refuse_contradictions(options, each.given));
    } else {
      EXPECT_THROW(refuse_contradictions(options, each.given), UserError) << says;
    }
  }
}

// Of runs that share settings, some cannot use all of them; what none can use is refused all the same.
TEST(Contradictions, OfARunAreFewerThanThoseOfACall) {
  TrainOptions shared{.policy = "store-all", .host_ram = 1};
  shared.precision.flow_quantized = true;
  EXPECT_NO_THROW(refuse_contradictions(shared));
  EXPECT_THROW(Trainer(TrainOptions{.model = "mlp", .resume = true}), UserError);
}

}  // namespace
}  // namespace neap
