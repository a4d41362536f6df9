#include "train/variants.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "neap/builtin_models.h"
#include "neap/error.h"
#include "train/model_spec.h"

namespace neap {
namespace {

TrainOptions options_of(const std::string& model, const std::string& gates) {
  TrainOptions options{.model = model, .batch = 4, .length = 16};
  options.device = "cuda";
  options.recurrent.gates = gates;
  return options;
}

// Numbers that the LSTM chunks of a step keep for backward beside their states. Needs no GPU.
std::int64_t kept_numbers(const std::string& compute, const std::string& gates) {
  TrainOptions options = options_of("lstm-lm:hidden=24,vocab=16", gates);
  options.compute = compute;
  const ModelSpec spec = make_spec(open_builtin_model(options.model), options);
  const std::vector<Variant> variants = variants_of(options, build_evaluation(spec, 4));
  const Graph graph = build_training(spec, options, variants.at(0));
  std::int64_t out = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "lstm_chunk") continue;
    for (const std::size_t kept : {2, 3}) out += graph.at(node.outputs.at(kept)).type.shape.count();
  }
  return out;
}

TEST(Variants, CudnnKeepsNothingInAWholeModel) {
  for (const char* compute : {"f32", "tf32", "bf16"}) {
    EXPECT_GT(kept_numbers(compute, "keep"), 0) << compute;
    EXPECT_EQ(kept_numbers(compute, "cudnn"), 0) << compute;
  }
}

TEST(Variants, TheOracleHasAllThatAdaptiveHas) {
  TrainOptions options = options_of("lstm-lm:hidden=24,vocab=16", "adaptive");
  options.device = "cpu";
  const Graph graph = build_evaluation(make_spec(open_builtin_model(options.model), options), 4);
  EXPECT_GT(variants_of(options, graph).size(), 1U);
  const std::vector<Variant> adaptive = variants_of(options, graph);
  options.policy = "oracle";
  EXPECT_EQ(variants_of(options, graph), adaptive);
  options.policy = "greedy";
  EXPECT_EQ(variants_of(options, graph).size(), 1U);
}

TEST(Variants, CudnnIsForAGpu) {
  TrainOptions options = options_of("lstm-lm:hidden=24,vocab=16", "cudnn");
  options.device = "cpu";
  EXPECT_THROW(variants_of(options, Graph()), UserError);
  options.recurrent.gates = "lost";
  EXPECT_THROW(variants_of(options, Graph()), UserError);
}

}  // namespace
}  // namespace neap
