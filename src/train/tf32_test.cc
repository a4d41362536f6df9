// --compute tf32: what a GPU would be given, and that nobody takes it for f32. Needs no GPU.
#include "mixed/tf32.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/op.h"
#include "neap/builtin_models.h"
#include "neap/error.h"
#include "ops/product_math.h"
#include "runtime/prepare.h"
#include "train/model_spec.h"

namespace neap {
namespace {

TrainOptions options_of(const std::string& model, const std::string& compute) {
  TrainOptions options{.model = model, .batch = 4, .length = 16};
  options.device = "cuda";
  options.compute = compute;
  return options;
}

ModelSpec spec_of(const TrainOptions& options) { return make_spec(open_builtin_model(options.model), options); }

// How many nodes take TF32; all that know it do.
int marked(const Graph& graph) {
  int out = 0;
  for (const Node& node : graph.nodes) {
    const bool knows_it = std::ranges::find(ops_of_tf32(), node.op->name) != ops_of_tf32().end();
    EXPECT_EQ(ops::is_tf32(node.attrs), knows_it) << node.op->name;
    out += knows_it ? 1 : 0;
  }
  return out;
}

TEST(Tf32, IsRefusedOnACpu) {
  TrainOptions options = options_of("mlp", "tf32");
  EXPECT_NO_THROW(spec_of(options));
  options.device = "cpu";
  try {
    spec_of(options);
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "--compute tf32 is for --device cuda: a CPU has no TF32; take f32 or bf16");
  }
}

TEST(Tf32, EveryProductOfAModelTakesIt) {
  for (const char* model : {"cnn", "gpt-mini:width=32,layers=2,heads=2,vocab=16", "lstm-lm:hidden=24,vocab=16",
                            "gru-lm:hidden=24,vocab=16"}) {
    const TrainOptions options = options_of(model, "tf32");
    const int forward = marked(build_evaluation(spec_of(options), 4));
    EXPECT_GT(forward, 0) << model;
    EXPECT_GT(marked(build_training(spec_of(options), options)), 2 * forward - 1) << model;
    EXPECT_EQ(marked(build_inference(spec_of(options), 4, {.optimize = "adaptive", .is_cuda = true})), forward)
        << model;
  }
}

// Runs can be compared, continued and replayed within one kind of numerics.
TEST(Tf32, HasNumericsOfItsOwn) {
  const auto device = make_cpu_device(1);
  const auto id = [&](const std::string& compute) {
    const TrainOptions options = options_of("mlp", compute);
    return prepare(build_training(spec_of(options), options), *device).numerics_id;
  };
  EXPECT_EQ(id("tf32"), id("tf32"));
  EXPECT_NE(id("tf32"), id("f32"));
}

}  // namespace
}  // namespace neap
