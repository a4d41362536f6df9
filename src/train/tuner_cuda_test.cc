// The tuner on a GPU, where rehearsals and notes read the card's memory and variants are made by the run's own thread.
#include <gtest/gtest.h>

#include "optimize/fuse_elementwise.h"
#include "train/model_spec.h"
#include "train/tuner.h"
#include "train/tuner_testing.h"

namespace neap {
namespace {

TunedNet net_with(const Optimization& pass) { return TunedNet({&pass}, kFree, 1000, nullptr, {}, "cuda"); }

TEST(TunerOnCuda, RejectsWhatGivesOtherResults) {
  TunedNet net = net_with(kWrong);
  net.steps(60);
  EXPECT_EQ(net.tuner->report().rejected, std::vector<std::string>{"wrong"}) << net.all_said();
  EXPECT_EQ(&net.tuner->current(), &net.base());
}

// Rehearsals change no state, and a variant with the same bits none either.
TEST(TunerOnCuda, KeepsWhatIsFasterAndEveryBit) {
  TunedNet faster = net_with(kFusedElementwise);
  faster.steps(60, fused_takes(0.1));
  EXPECT_TRUE(faster.runs_fused()) << faster.all_said();
  TunedNet slower = net_with(kFusedElementwise);
  slower.steps(60, fused_takes(10));
  EXPECT_FALSE(slower.runs_fused()) << slower.all_said();
  EXPECT_GT(slower.tuner->report().trials, 0);
  EXPECT_EQ(faster.state(), slower.state());
}

// A step whose calls are timed is slower on a GPU: that is paid for, too.
TEST(TunerOnCuda, PaysForLooks) {
  double looks_ms = 0;
  const auto charged = [&](Effort effort) {
    if (effort == Effort::kLook) looks_ms += 1;
    return 0.0;
  };
  TunedNet net({&kFusedElementwise}, kFree, 1000, nullptr, charged, "cuda");
  net.steps(60);
  EXPECT_GT(looks_ms, 0);
}

TEST(TunerOnCuda, ChoosesFromWhatAGpuTakes) {
  TrainOptions options;
  options.model = "gpt-mini:dropout=0.1";
  options.device = "cuda";
  options.steps = 2000;
  const auto setup = make_setup(open_model(options.model), options);
  const auto chosen = tuner_options(options, setup);
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->is_synchronous);
  for (const Optimization* each : chosen->library) EXPECT_EQ(each->on_cuda, OnCuda::kYes) << each->name;
}

}  // namespace
}  // namespace neap
