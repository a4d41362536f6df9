// Pruning while training: --prune.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/file_testing.h"
#include "neap/error.h"
#include "neap/train.h"
#include "train/checkpoint.h"
#include "train/resume_testing.h"
#include "train/safetensors.h"

namespace neap {
namespace {

TrainOptions options(const std::string& prune) {
  TrainOptions out{.model = "mlp:hidden=32", .steps = 8, .batch = 8};
  out.optimizer = {.name = "adamw", .lr = 0.01};
  out.prune = prune;
  return out;
}

// Where the weights of a layer are zero.
std::set<std::size_t> zeros(const Trainer& trainer, const std::string& name) {
  const testing::TempDir folder;
  const std::string path = (folder.path() / "w.safetensors").string();
  trainer.save(path);
  const SafeTensorsFile file(path);
  const SafeTensor* t = file.find(name);
  EXPECT_NE(t, nullptr) << name;
  std::set<std::size_t> out;
  const auto* values = reinterpret_cast<const float*>(t->data.data());
  for (std::size_t i = 0; i < t->data.size() / 4; ++i) {
    if (values[i] == 0) out.insert(i);
  }
  return out;
}

TEST(PruningInTraining, KeepsItsMaskFromTheStepOn) {
  for (const std::int64_t parts : {1, 2}) {
    TrainOptions o = options("2:4,from=3");
    o.accumulate = parts;
    Trainer trainer(o);
    trainer.advance();
    trainer.advance();
    EXPECT_TRUE(zeros(trainer, "fc2.weight").empty());
    trainer.advance();
    const auto settled = zeros(trainer, "fc2.weight");
    EXPECT_EQ(settled.size(), 16U * 32 / 2);
    std::map<std::size_t, int> groups;
    for (const std::size_t i : settled) ++groups[i / 4];
    for (const auto& [group, count] : groups) EXPECT_EQ(count, 2) << group;
    while (trainer.step() < o.steps) trainer.advance();
    EXPECT_EQ(zeros(trainer, "fc2.weight"), settled);
  }
}

TEST(PruningInTraining, TakesAShare) {
  Trainer trainer(options("0.75"));
  trainer.advance();
  EXPECT_EQ(zeros(trainer, "fc2.weight").size(), 16U * 32 * 3 / 4);
  EXPECT_EQ(zeros(trainer, "fc1.weight").size(), 784U * 32 * 3 / 4);
}

TEST(PruningInTraining, GoesOnFromACheckpointWithItsMask) {
  testing::expect_same_bits_resumed(options("2:4,from=2"));
  testing::expect_same_bits_resumed(options("0.5,from=6"));
}

TEST(PruningInTraining, HoldsBelowABudgetWithTheSameBits) {
  TrainOptions o = options("2:4,from=2");
  Trainer all(o);
  o.budget = "min";
  Trainer least(o);
  for (std::int64_t i = 0; i < o.steps; ++i) {
    all.advance();
    least.advance();
  }
  EXPECT_EQ(all.summary().weights_hash, least.summary().weights_hash);
  EXPECT_EQ(least.summary().violations, 0);
}

TEST(PruningInTraining, RefusesWhatMakesNoSense) { EXPECT_THROW(Trainer(options("2:2")), UserError); }

}  // namespace
}  // namespace neap
