// Whole runs whose lengths change: who predicts lifetimes changes no bit, with and without spilling.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace neap {
namespace {

using Json = nlohmann::json;

Json summary_of(const std::string& arguments) {
  const Outcome o = run_neap(arguments + " --json -");
  EXPECT_EQ(o.status, 0) << arguments << "\n" << o.err;
  if (o.status != 0) return Json::object();
  const std::size_t end = o.out.find_last_not_of('\n');
  return Json::parse(o.out.substr(o.out.rfind('\n', end) + 1));
}

TEST(Lifetimes, AnyPredictorGivesTheWeightsOfExactPlans) {
  const std::string run =
      "train lstm-lm:hidden=64,vocab=64 --batch 16 --length 96 --length-schedule 2:48,3:96,4:64,5:32,6:80 --steps 7 ";
  for (const std::string policy : {"--policy store-all", "--policy spill --budget 85%"}) {
    const Json exact = summary_of(run + policy + " --lifetimes exact");
    ASSERT_TRUE(exact.contains("weights_hash"));
    for (const char* name : {"lstm", "regression", "random", "zero", "infinite", "adversarial", "nan"}) {
      const Json s = summary_of(run + policy + " --lifetimes " + name);
      ASSERT_TRUE(s.contains("weights_hash")) << policy << " " << name;
      EXPECT_EQ(s["weights_hash"], exact["weights_hash"]) << policy << " " << name;
      EXPECT_EQ(s["violations"], 0) << policy << " " << name;
    }
  }
}

TEST(Lifetimes, UnknownPredictorsAreRefused) {
  const Outcome o = run_neap("train lstm-lm:hidden=32,vocab=64 --batch 2 --length 32 --steps 1 --lifetimes tea-leaves");
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("tea-leaves"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace neap
