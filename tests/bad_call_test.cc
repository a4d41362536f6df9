// Calls that must be refused: one line that says what is wrong, exit status 2, nothing written.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program.h"

namespace neap {
namespace {

void expect_refused(const std::string& arguments, const std::string& names, int status = 2) {
  const Outcome o = run_neap(arguments);
  EXPECT_EQ(o.status, status) << arguments << "\n" << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << arguments << "\n" << o.err;
  EXPECT_NE(o.err.find(names), std::string::npos) << arguments << "\n" << o.err;
}

TEST(BadCall, Flags) {
  expect_refused("", "subcommand");
  expect_refused("trian mlp", "did you mean 'train'?");
  expect_refused("train", "MODEL");
  expect_refused("train mlp --step 5", "did you mean '--steps'?");
  expect_refused("train mlp --bugdet=5MiB", "did you mean '--budget'?");
  expect_refused("train mlp --steps 1 --report /no/such/folder/run.html", "/no/such/folder");
  expect_refused("train mlp --steps 1 --tensorboard /dev/null/events", "/dev/null/events");
  expect_refused("train mlp --steps 1 --decisions /no/such/folder/d.jsonl", "/no/such/folder");
  expect_refused("train mlp --steps 1 --replay /no/such/decisions", "/no/such/decisions");
  expect_refused("fit mlp", "--budget");
  expect_refused("fit mlp --budget 50%", "50%");
  expect_refused("fit mlp --budget 1GiB --find length", "no sequences");
  expect_refused("fit mlp --budget 1KiB", "not even a batch of 1", 3);
  expect_refused("train mlp --batch 0", "--batch");
  expect_refused("train mlp --batch ten", "--batch");
  expect_refused("train mlp --optimizer adagrad", "adagrad");
  expect_refused("train mlp --lr nan --steps 1", "learning rate");
  expect_refused("train mlp --optimizer sgd --momentum 2 --steps 1", "momentum");
  expect_refused("train mlp --schedule sine", "sine");
  expect_refused("train mlp --budget lots", "--budget");
  expect_refused("train mlp --device tpu", "--device");
  expect_refused("train mlp --freeze nothing.*", "nothing.*");
  expect_refused("train mlp --resume", "--checkpoint");
  expect_refused("train mlp --eval validation", "--validation");
  expect_refused("train mlp --save weights.txt", "weights.txt");
  expect_refused("train mlp --loss mse", "mse");
  expect_refused("train mlp --loss hinge", "hinge");
  expect_refused("train mlp --bn maybe", "maybe");
  expect_refused("train mlp --compute f16", "f16");
  for (const char* command : {"train mlp", "plan mlp", "infer mlp", "fit mlp --budget 1GiB"}) {
    expect_refused(std::string(command) + " --compute tf32", "--compute tf32 is for --device cuda");
  }
  expect_refused("train mlp --optimize fast", "fast");
  expect_refused("train mlp --optimize off,vocab-loss", "'off' stands alone");
}

#ifndef NEAP_FAKE_DRIVER  // a build without CUDA
TEST(BadCall, AGpuWithoutCuda) {
  expect_refused("train mlp --steps 1 --device cuda", "this build of neap has no CUDA");
}
#endif

// Both settings are named. All of the rules: Contradictions (src/train).
TEST(BadCall, SettingsThatContradictEachOther) {
  const ScratchFolder folder;
  expect_refused("train mlp --policy int8 --tolerance exact",
                 "--policy int8 rounds what it stores, and --tolerance exact");
  expect_refused("plan mlp --flow-quantized", "--tolerance exact");
  expect_refused("train mlp --checkpoint-every 5", "--checkpoint FOLDER");
  expect_refused("train lstm-lm --carry-state --shuffle", "--shuffle");
  expect_refused("train mlp --schedule cosine:every=5", "has no 'every'");
  write_text(folder / "a.ini", "target_accuracy = exact\npolicy = int4\n");
  expect_refused("train mlp --config " + (folder / "a.ini"), "--policy int4");
  EXPECT_EQ(run_neap("train mlp --steps 1 --policy int8").status, 0);
  EXPECT_EQ(run_neap("train mlp --steps 1 --policy sqrt --host-ram 1GiB").status, 0) << "leave, and no order";
}

TEST(BadCall, Models) {
  expect_refused("train mpl", "mpl");
  expect_refused("train mlp:width=3", "width");
  expect_refused("train missing.onnx", "missing.onnx");
  expect_refused("train mlp:hidden=many", "many");
  expect_refused("train gpt-mini --length 4000", "4000");
}

TEST(BadCall, SchedulesAndLengths) {
  expect_refused("train mlp --budget-schedule 5", "--budget-schedule");
  expect_refused("train mlp --budget-schedule 5:lots", "5:lots");
  expect_refused("train mlp --budget-schedule 9:1GiB,5:1GiB", "step 5");
  expect_refused("train mlp --batch-schedule 5", "--batch-schedule");
  expect_refused("train mlp --batch-schedule 5:lots", "5:lots");
  expect_refused("train mlp --batch-schedule 5:0", "5:0");
  expect_refused("train mlp --batch-schedule 9:8,5:8", "step 5");
  expect_refused("train mlp --batch-schedule 5:8,5:16", "step 5");
  expect_refused("train mlp --batch 4 --split 2 --batch-schedule 5:3", "step 5");
  expect_refused("train lstm-lm:hidden=8,vocab=8 --carry-state --batch-schedule 5:3", "--batch-schedule");
  expect_refused("profile mlp --batch-schedule 2:8 --steps 1", "one shape");
  expect_refused("train mlp --lengths varying", "mlp");
  expect_refused("train gpt-mini --lengths some", "--lengths");
  expect_refused("train gpt-mini --length-schedule 1:9999", "9999");
  expect_refused("profile gpt-mini:layers=1 --lengths varying --steps 1", "one shape");
}

TEST(Help, HasTheSchedules) {
  const std::string help = run_neap("train --help").out;
  for (const char* flag : {"--batch-schedule", "--length-schedule", "--budget-schedule"}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
}

TEST(BadCall, Subgraphs) {
  expect_refused("profile mlp --steps 1 --performance-threshold 0", "performance_threshold 0");
  expect_refused("profile mlp --steps 1 --performance-threshold 1.5", "performance_threshold 1.5");
  expect_refused("profile mlp --steps 1 --merging-threshold=-1", "merging_threshold -1");
  expect_refused("profile mlp --steps 1 --merging-threshold 0.3", "below performance_threshold");
  expect_refused("profile mlp --steps 1 --initial-granularity 0", "initial_granularity 0");
  expect_refused("profile mlp --steps 1 --initial-granularity 30", "initial_granularity 30");
  expect_refused("profile mlp --steps 1 --window 0", "window 0");
  expect_refused("profile mlp --steps 1 --cooldown=-1", "cooldown -1");
  expect_refused("train mlp --optimize off,fuse", "stands alone");
  expect_refused("train mlp --steps 1 --performance-threshold 1.5", "performance_threshold 1.5");
  expect_refused("train mlp --steps 1 --merging-threshold 0.3", "below performance_threshold");
  expect_refused("train mlp --steps 1 --initial-granularity 0", "initial_granularity 0");
  expect_refused("train mlp --steps 1 --initial-granularity 30", "initial_granularity 30");
  expect_refused("train mlp --steps 1 --RL_training_epochs 0", "RL_training_epochs 0");
  expect_refused("train mlp --steps 1 --trial-share 2", "trial_share 2");
  expect_refused("train mlp --steps 1 --numerics wild", "wild");
}

TEST(BadCall, BudgetOfAnotherProcess) {
  expect_refused("budget", "PID");
  expect_refused("budget 1", "SIZE");
  expect_refused("budget one 1GiB", "'one'");
  expect_refused("budget -5 1GiB", "");
  expect_refused("budget 999999999 1GiB", "no process");
  expect_refused("budget $$ 1GiB", "no training run");
}

TEST(BadCall, BudgetBelowTheMinimum) {
  expect_refused("train mlp --budget 1KiB", "minimum", 3);
  expect_refused("train mlp --budget 1KiB --batch 4 --batch-schedule 7:64", "64 samples need, from step 7 on", 3);
  expect_refused("plan mlp --budget 1KiB --json /dev/null", "minimum", 3);
}

TEST(BadCall, TheMinimumSaysWhatItConsistsOf) {
  const Outcome o = run_neap("train gpt-mini:layers=2,width=64,heads=2 --batch 2 --length 32 --budget 500KiB");
  EXPECT_EQ(o.status, 3);
  for (const char* part : {"the minimum of", " bytes)", "of state", "of gradients", "layer 'blocks.", "sets it"}) {
    EXPECT_NE(o.err.find(part), std::string::npos) << part << " in " << o.err;
  }
}

TEST(BadCall, ABudgetThatFallsBelowTheMinimumIsSaidAndTrainingGoesOn) {
  const Outcome o = run_neap(
      "train gpt-mini:layers=2,width=64,heads=2 --batch 2 --length 32 --steps 4 --budget-schedule 3:1KiB --json -");
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* part : {"step 3", "1.0 KiB is below the minimum of", "of it state", "goes on at the minimum"}) {
    EXPECT_NE(o.err.find(part), std::string::npos) << part << " in " << o.err;
  }
  EXPECT_NE(o.out.find("\"violations\":0"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("\"step\":4"), std::string::npos) << o.out;
}

TEST(BadCall, Parts) {
  expect_refused("train mlp --accumulate 0", "--accumulate '0'");
  expect_refused("train mlp --accumulate some", "--accumulate 'some'");
  expect_refused("train mlp --accumulate 2x", "--accumulate '2x'");
  expect_refused("train mlp --accumulate auto --budget 50%", "--accumulate auto");
  expect_refused("fit mlp --accumulate auto --budget 1GiB", "--accumulate auto");
  expect_refused("train mlp --split 0", "--split '0'");
  expect_refused("train mlp --split 2x", "--split '2x'");
  expect_refused("train mlp --batch 8 --split 3", "--split 3");
  expect_refused("plan mlp --split auto --budget 25%", "--split auto");
  expect_refused("train mlp --split auto --accumulate auto --budget 1GiB", "--split auto");
}

TEST(BadCall, Agent) {
  expect_refused("train mlp --every 1", "every 1");
  expect_refused("train mlp --every two", "--every");
  expect_refused("train mlp --every 0", "every 0");
  expect_refused("train mlp --every -2", "every -2");
  expect_refused("train mlp --every 2,x", "2,x");
  expect_refused("train mlp --every 99999999999", "--every");
  expect_refused("train mlp --reward-weights 0,0,0", "all 0");
  expect_refused("train mlp --reward-weights nan,0,0", "nan");
  expect_refused("train mlp --reward-weights 1e9,0,0", "below 1000000");
  expect_refused("train mlp --reward applause", "applause");
  expect_refused("train mlp --reward-weights 1,2", "time,memory,bandwidth");
  expect_refused("train mlp --reward-weights 1,-2,0", "not negative");
  expect_refused("train mlp --explore 2", "--explore");
  expect_refused("train mlp --learnt /no/such/file", "/no/such/file");
  expect_refused("train mlp --learnt /dev/null", "cannot be read");
  expect_refused("train mlp --learnt /etc/passwd", "none of neap's");
}

TEST(BadCall, Recurrent) {
  expect_refused("train lstm-lm --recurrent sideways", "sideways");
  expect_refused("train lstm-lm --recurrent unrolled:0", "unrolled:0");
  expect_refused("train lstm-lm --recurrent unrolled:99999999999", "unrolled:99999999999");
  expect_refused("train lstm-lm --recurrent hybrid:-1", "hybrid:-1");
  expect_refused("train lstm-lm --gates open", "--gates");
  expect_refused("train lstm-lm --recurrent-gears rolled,,whole", "no way to run");
  expect_refused("train lstm-lm --recurrent-explore 2", "--recurrent-explore");
  expect_refused("train lstm-lm --recurrent-dwell 0", "--recurrent-dwell");
  expect_refused("train lstm-lm --length 0", "--length");
  expect_refused("train lstm-lm --length=-4", "--length");
  expect_refused("train lstm-lm:chunk=0", "chunk");
  expect_refused("train lstm-lm:hidden=0", "");
  expect_refused("train lstm-lm --recurrent-policy /no/such/file", "/no/such/file");
  expect_refused("train lstm-lm --recurrent-policy /dev/null", "/dev/null");
}

// A policy that was cut off, is of another version, of another machine or made to do harm: one line, and training goes
// on with the one that neap comes with.
TEST(BadCall, RecurrentPolicies) {
  const ScratchFolder folder;
  const std::string head = "neap-recurrent-policy 1\nfeatures 23\nmachine ";
  const std::pair<const char*, std::string> files[] = {
      {"cut.policy", head + "any\ntensor actor.weight 32\n3f800000"},
      {"old.policy", "neap-recurrent-policy 0\n"},
      {"foreign.policy", "PK\x03\x04 something else"},
      {"features.policy", "neap-recurrent-policy 1\nfeatures 18446744073709551615\nmachine any\n"},
      {"huge.policy", head + "any\ntensor actor.weight 18446744073709551615\n"},
      {"long.policy", std::string(3 << 20, 'x')},
      {"zeros.policy", std::string(4096, '\0')}};
  const std::string run = "train lstm-lm:hidden=8,layers=1 --batch 1 --length 1 --steps 1 ";
  for (const auto& [name, text] : files) {
    write_text(folder / name, text);
    const Outcome o = run_neap(run + "--recurrent-policy " + (folder / name));
    EXPECT_EQ(o.status, 0) << name << o.err;
    EXPECT_NE(o.err.find("the one that comes with neap is used"), std::string::npos) << name << ": " << o.err;
  }
}

TEST(BadCall, Compare) {
  expect_refused("compare mlp --policies store-all,hope", "hope");
  expect_refused("compare mlp --budgets 50%,some", "some");
  expect_refused("compare mlp --steps 0", "--steps");
}

TEST(BadCall, Config) {
  const ScratchFolder folder;
  write_text(folder / "a.ini", "steps = 1\nstpes = 2\n");
  expect_refused("train mlp --config " + (folder / "a.ini"), "did you mean 'steps'?");
  expect_refused("train mlp --config " + (folder / "missing.ini"), "missing.ini");
  write_text(folder / "c.ini",
             "every = 2,4\nreward = document\nreward-weights = 1,0.5,0\nbudget-schedule = 5:1GiB,9:2GiB\n");
  EXPECT_EQ(run_neap("train --config " + (folder / "c.ini") + " mlp --steps 0").status, 0)
      << "commas are the values' own";
  write_text(folder / "d.ini", "every = none\n");
  expect_refused("train mlp --config " + (folder / "d.ini"), "--every = none");
  write_text(folder / "e.ini", "reward = applause\n");
  expect_refused("train mlp --config " + (folder / "e.ini"), "applause");
  write_text(folder / "f.ini", "budget-schedule = 5\n");
  expect_refused("train mlp --config " + (folder / "f.ini"), "--budget-schedule");
  write_text(folder / "b.ini", "batch = lots\n");
  expect_refused("train mlp --config " + (folder / "b.ini"), "batch");
}

TEST(BadCall, Data) {
  const ScratchFolder folder;
  write_text(folder / "empty.txt", "");
  write_text(folder / "short.txt", "abc");
  write_text(folder / "broken.npz", "PK\x03\x04 not a zip");
  write_text(folder / "broken.gz", std::string("\x1f\x8b\x08\x00garbage", 11));
  expect_refused("train gpt-mini --steps 1 --data " + (folder / "empty.txt"), "empty.txt");
  expect_refused("train gpt-mini --steps 1 --data " + (folder / "short.txt"), "short.txt");
  expect_refused("train gpt-mini --steps 1 --data " + (folder / "missing.txt"), "missing.txt");
  expect_refused("train mlp --steps 1 --data " + (folder / "broken.npz"), "broken.npz");
  expect_refused("train mlp --steps 1 --data " + (folder / "broken.gz") + "," + (folder / "broken.gz"), "broken.gz");
  expect_refused("train mlp --steps 1 --batch 70000 --data fashion-mnist", "70000");
}

TEST(BadCall, Outputs) {
  const ScratchFolder folder;
  expect_refused("train mlp --steps 1 --json /nowhere/at/all.json", "/nowhere/at/all.json");
  expect_refused("train mlp --steps 1 --save /nowhere/at/all.safetensors", "/nowhere/at/all.safetensors");
  EXPECT_TRUE(folder.files().empty());
}

TEST(BadCall, WeightsAndCheckpoints) {
  const ScratchFolder folder;
  write_text(folder / "bad.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9));
  expect_refused("train mlp --steps 1 --init " + (folder / "bad.safetensors"), "bad.safetensors");
  const std::string dir = folder / "run";
  ASSERT_EQ(run_neap("train mlp --steps 2 --checkpoint " + dir).status, 0);
  expect_refused("train mlp:hidden=64 --steps 3 --resume --checkpoint " + dir, "model");
  expect_refused("train mlp --seed 5 --steps 3 --resume --checkpoint " + dir, "seed");
  std::string bytes = read_file(dir + "/checkpoint.safetensors");
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write_text(dir + "/checkpoint.safetensors", bytes);
  expect_refused("train mlp --steps 3 --resume --checkpoint " + dir, "damaged");
  write_text(dir + "/checkpoint.safetensors", bytes.substr(0, bytes.size() / 2));
  expect_refused("train mlp --steps 3 --resume --checkpoint " + dir, "checkpoint.safetensors");
}

}  // namespace
}  // namespace neap
