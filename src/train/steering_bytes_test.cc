// The agents of a run are part of the memory that it reports for steering.
#include <gtest/gtest.h>

#include "neap/train.h"
#include "policy/dqn/agent.h"
#include "policy/lifetime/quantile_net.h"
#include "policy/ppo/agent.h"

namespace neap {
namespace {

TrainOptions tiny(const std::string& model) {
  TrainOptions out{.model = model, .steps = 4, .batch = 2, .length = 32};
  out.synchronous_planning = true;
  out.threads = 1;
  return out;
}

std::int64_t steering_bytes(const TrainOptions& options) {
  Trainer trainer(options);
  while (trainer.step() < options.steps) trainer.advance();
  return trainer.summary().steering_bytes;
}

constexpr const char* kLstm = "lstm-lm:hidden=16,vocab=64";

TEST(SteeringBytes, HaveTheRecurrentAgent) {
  const TrainOptions chosen = tiny(kLstm);
  TrainOptions fixed = chosen;
  fixed.recurrent.gear = "whole";
  const std::int64_t network = ppo::Agent({}).network().bytes();
  EXPECT_GT(network, 4096);
  EXPECT_GE(steering_bytes(chosen), steering_bytes(fixed) + network);
}

TEST(SteeringBytes, HaveTheAgentOfOptimizations) {
  TrainOptions tuned = tiny("gpt-mini:layers=1,width=32,heads=2");
  tuned.tuning.trial_share = 1;
  TrainOptions plain = tuned;
  plain.tuning.trial_share = 0;
  const std::int64_t networks = dqn::Agent({Strategy{}}, {}).bytes();
  EXPECT_GT(networks, 1024);
  EXPECT_GE(steering_bytes(tuned), steering_bytes(plain) + networks);
}

TEST(SteeringBytes, HaveThePredictorOfLifetimes) {
  TrainOptions predicted = tiny(kLstm);
  predicted.length_schedule = "2:16";
  TrainOptions exact = predicted;
  exact.lifetimes = "exact";
  const std::int64_t network = QuantileNet(0).arena_bytes();
  EXPECT_GT(network, 4096);
  EXPECT_GE(steering_bytes(predicted), steering_bytes(exact) + network);
}

// What an agent remembers, beside its network.
TEST(SteeringBytes, HaveWhatIsRemembered) {
  ppo::Agent agent({});
  const std::int64_t empty = agent.bytes();
  agent.reserve(2, 8);
  EXPECT_GE(agent.bytes(), empty + 16 * static_cast<std::int64_t>(sizeof(ppo::Moment)));
}

}  // namespace
}  // namespace neap
