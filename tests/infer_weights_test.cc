// `neap infer` below budgets that do not hold the weights: they wait outside and come in ahead of their readers.
#include <gtest/gtest.h>

#include <algorithm>

#include "neap/error.h"
#include "neap/infer.h"
#include "pool/spill_store.h"
#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

constexpr const char* kRun = "infer gpt-mini:layers=4,width=128,heads=4 --batch 2 --length 32 --samples 5 ";

Json inferred(const std::string& flags, const std::string& run = kRun) {
  const Outcome o = run_neap(run + flags + " --json -");
  EXPECT_EQ(o.status, 0) << flags << "\n" << o.err;
  const std::vector<Json> lines = lines_of(o.out);
  return lines.empty() ? Json::object() : lines.back();
}

TEST(InferWeights, TheBitsAreThoseOfAllInTheArena) {
  const ScratchFolder folder;
  Json all = inferred("");
  EXPECT_EQ(all["outside_bytes"], 0);
  for (const std::string& place : {std::string("--host-ram 64MiB"), "--spill-dir " + (folder / "")}) {
    for (const char* how : {"--budget min", "--budget min+60%", "--budget min+60% --no-prefetch"}) {
      Json some = inferred(place + " " + how);
      EXPECT_EQ(some["loss"], all["loss"]) << place << " " << how;
      EXPECT_EQ(some["numerics_id"], all["numerics_id"]);
      EXPECT_LE(some["peak_bytes"], some["budget_bytes"]) << place << " " << how;
      EXPECT_LT(some["budget_bytes"], all["min_budget_bytes"]);
      EXPECT_LT(some["budget_bytes"], all["state_bytes"]);
      EXPECT_GT(some["outside_bytes"], 0);
      EXPECT_GE(some["fetched_bytes"], some["outside_bytes"]);
      EXPECT_EQ(some["replays"], 0);
    }
  }
  EXPECT_TRUE(folder.files().empty());
}

TEST(InferWeights, AllStayWhereTheyFit) {
  Json all = inferred("");
  Json same = inferred("--host-ram 64MiB --budget " + std::to_string(all["min_budget_bytes"].get<std::int64_t>()));
  EXPECT_EQ(same["outside_bytes"], 0);
  EXPECT_EQ(same["fetched_bytes"], 0);
  EXPECT_EQ(same["loss"], all["loss"]);
}

// Convolutions, recurrent layers, weights in another form than they come in.
TEST(InferWeights, ForEveryKindOfModel) {
  for (const std::string& run :
       {std::string("infer cnn --batch 4 --samples 6 "),
        std::string("infer lstm-lm:hidden=64,layers=2 --batch 4 --length 16 --samples 6 "),
        std::string("infer bert-mini:layers=2,width=64,heads=2 --batch 2 --length 16 --samples 3 --optimize int8 "),
        std::string("infer mlp:hidden=256 --batch 2 --samples 5 --prune 2:4 ")}) {
    Json all = inferred("", run);
    Json least = inferred("--host-ram 64MiB --budget min", run);
    EXPECT_EQ(least["loss"], all["loss"]) << run;
    EXPECT_LE(least["peak_bytes"], least["budget_bytes"]) << run;
    EXPECT_GT(least["outside_bytes"], 0) << run;
    EXPECT_LT(least["budget_bytes"], all["min_budget_bytes"]) << run;
  }
}

// One line: the minimum, what to add, and then the minimum is another one, and it is enough.
TEST(InferWeights, WithoutAPlaceTheErrorSaysWhatToAdd) {
  const Outcome o = run_neap(kRun + std::string("--budget 256KiB"));
  EXPECT_EQ(o.status, 3);
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.err.find("minimum of inference"), std::string::npos) << o.err;
  const std::size_t advice = o.err.find("--host-ram SIZE or --spill-dir DIR");
  ASSERT_NE(advice, std::string::npos) << o.err;
  const std::string minimum = std::to_string(std::stoll(o.err.substr(o.err.find('(', advice) + 1)));
  EXPECT_EQ(inferred("--host-ram 64MiB --budget " + minimum)["loss"], inferred("")["loss"]);
  const Outcome less = run_neap(kRun + std::string("--host-ram 64MiB --budget 256KiB"));
  EXPECT_EQ(less.status, 3);
  EXPECT_NE(less.err.find("(" + minimum + " bytes)"), std::string::npos) << less.err;
}

TEST(InferWeights, TransfersThatFailAreSurvivedToTheSameBits) {
  Json all = inferred("");
  for (const std::string fault : {"fail-read:3", "corrupt-read:9", "fail-write:2", "slow:8"}) {
    Json some = inferred("--budget min+30% --spill-dir /dev/shm --spill-fault " + fault);
    EXPECT_EQ(some["loss"], all["loss"]) << fault;
    EXPECT_EQ(some["replays"], fault.find("read") != std::string::npos ? 1 : 0) << fault;
  }
}

TEST(InferWeights, PlacesThatCannotBeUsedEndWithOneLine) {
  const auto refused = [](const std::string& flags, const std::string& word) {
    const Outcome o = run_neap(kRun + flags);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(word), std::string::npos) << o.err;
    return o.status;
  };
  EXPECT_EQ(refused("--budget min --spill-dir /no/such/folder", "/no/such/folder"), 2);
  EXPECT_EQ(refused("--budget min --spill-dir /dev/shm --spill-fault full:64KiB", "--spill-dir"), 4);
}

// A store that forgets what it was given.
class Forgetful final : public SpillStore {
 public:
  void begin_write(std::uint32_t /*slot*/, const std::byte* /*src*/) override { is_write_ = true; }
  void begin_read(std::uint32_t /*slot*/, std::byte* /*dst*/) override { is_write_ = false; }
  void wait(std::uint32_t /*slot*/) override {
    if (!is_write_) throw SpillLost{.what = "gone"};
  }
  void drain() override { ++drained; }
  SpillCounters counters() const override { return {}; }
  std::span<const SlotTimes> times() const override { return {}; }
  static inline int drained = 0;

 private:
  bool is_write_ = false;
};

TEST(InferWeights, WeightsThatDoNotComeBackEndTheRun) {
  TrainOptions options;
  options.model = "mlp:hidden=256";
  options.batch = 2;
  options.host_ram = 64 << 20;
  options.budget = "min";
  const auto model = open_model(options.model);
  const SpillStoreMaker before = spill_store_maker();
  spill_store_maker() = [](const std::vector<std::int64_t>&, const SpillOptions&) -> std::unique_ptr<SpillStore> {
    return std::make_unique<Forgetful>();
  };
  std::string what;
  try {
    infer(model, options, {.samples = 4});
  } catch (const DeviceError& e) {
    what = e.what();
  }
  spill_store_maker() = before;
  EXPECT_NE(what.find("a weight is lost: gone"), std::string::npos) << what;
  EXPECT_EQ(Forgetful::drained, 3);
}

TEST(InferWeights, TellsPeople) {
  const Outcome o = run_neap(kRun + std::string("--budget min --host-ram 64MiB"));
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* word : {"of weights wait outside", "come in for a batch"}) {
    EXPECT_NE(o.out.find(word), std::string::npos) << word << " in\n" << o.out;
  }
}

}  // namespace
}  // namespace neap
