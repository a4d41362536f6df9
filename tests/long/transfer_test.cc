// What an agent has learnt on one architecture starts it on another: no worse than one that begins with nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "neap/train.h"
#include "plan/simulate.h"
#include "policy/adaptive.h"
#include "train/setup.h"

namespace neap {
namespace {

using q_learning::Agent;
using q_learning::AgentOptions;
using q_learning::Chain;

// A model as planners see it, with guessed times: the same on every machine.
class Network {
 public:
  Network(const char* model, std::int64_t batch, std::int64_t image)
      : setup_(make_setup(open_model(model), options(model, batch, image))) {}

  PlanningProblem problem() const {
    return {.graph = setup_.program->graph, .costs = setup_.program->costs, .link = setup_.link};
  }
  // Of what storing everything takes beyond the state; never below the minimum plus 5 %.
  std::int64_t share(double part) const {
    const std::int64_t state = setup_.plan.state_bytes;
    const auto rest = static_cast<double>(setup_.store_all_bytes - state);
    return std::max(state + static_cast<std::int64_t>(rest * part), setup_.min_bytes + setup_.min_bytes / 20);
  }
  Chain chain(double part) const {
    const PlanningProblem p = problem();
    const Recompute r(p);
    return chain_of(r, find_layers(r), share(part));
  }

 private:
  static TrainOptions options(const char* model, std::int64_t batch, std::int64_t image) {
    TrainOptions out{.model = model, .batch = batch, .image = image, .device = "null"};
    return out;
  }
  Setup setup_;
};

class Transfer : public testing::Test {
 protected:
  // Both take most of their time at the memory, as they are guessed: what is learnt of such layers is of such layers.
  const Network from_ = Network("resnet20", 64, 32);
  const Network to_ = Network("resnet50", 8, 64);
};

// Neither sees an exact plan of the second network: what the first has taught is all that there is.
TEST_F(Transfer, TheAgentAloneStartsNoWorseThanUntaught) {
  Agent teacher({});
  for (const double part : {0.75, 0.5, 0.35}) teacher.learn(from_.chain(part));
  std::stringstream file;
  teacher.save(file);
  const AgentOptions alone = {.lessons = 0, .refinements = 0};
  const std::vector<q_learning::Choice> offered = q_learning::choices_of(alone.every);
  Agent started(alone);
  started.load(file);
  double gained = 0;
  for (const double part : {0.75, 0.5, 0.35}) {
    const Chain chain = to_.chain(part);
    Agent untaught(alone);
    const auto plain = untaught.propose(chain);
    const auto better = started.propose(chain);
    ASSERT_TRUE(plain && better) << part;
    const double without = outcome_of(chain, *plain, {}).added_ms;
    const double with = outcome_of(chain, *better, {}).added_ms;
    const q_learning::ExactPlan exact(chain, offered, {});
    fmt::print("resnet50 at {:.0f} %: added {:.2f} ms untaught, {:.2f} ms taught on resnet20, {:.2f} ms exact\n",
               100 * part, without, with, outcome_of(chain, *exact.choices(), {}).added_ms);
    EXPECT_TRUE(outcome_of(chain, *better, {}).fits) << part;
    EXPECT_LE(with, without * 1.0001) << part;
    gained += without - with;
  }
  EXPECT_GT(gained, 0) << "what was learnt changes nothing";
}

TEST_F(Transfer, ThePolicyPlansNoWorseThanUntaught) {
  const AdaptivePolicy teacher({}, "");
  teacher.within(from_.problem(), from_.share(0.5));
  const AdaptivePolicy untaught({}, "");
  const AdaptivePolicy started({}, teacher.learnt());
  const auto ms = [&](const AdaptivePolicy& policy) {
    return simulate(*policy.within(to_.problem(), to_.share(0.5)), to_.problem().costs).ms;
  };
  EXPECT_LE(ms(started), ms(untaught) * 1.001);
}

}  // namespace
}  // namespace neap
