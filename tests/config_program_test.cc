// Config files that cannot be meant, and comments in them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program.h"

namespace neap {
namespace {

class Config : public ::testing::Test {
 protected:
  Outcome run_with(const std::string& lines) {
    write_text(folder_ / "run.ini", lines);
    return run_neap("train mlp --config " + (folder_ / "run.ini"));
  }

  static void expect_refused(const Outcome& o, const std::string& names) {
    EXPECT_EQ(o.status, 2) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_NE(o.err.find(names), std::string::npos) << o.err;
  }

  ScratchFolder folder_;
};

TEST_F(Config, IsNoFolder) {
  expect_refused(run_neap("train mlp --steps 0 --config /tmp"), "config file '/tmp' cannot be read: it is a folder");
}

TEST_F(Config, NamesNoOther) {
  const Outcome o = run_with("steps = 0\nconfig = other.ini\n");
  expect_refused(o, "run.ini': 'config' stands in no file");
  EXPECT_EQ(o.err.find("did you mean"), std::string::npos) << o.err;
}

TEST_F(Config, GivesEverySettingAValue) {
  for (const char* lines : {"steps =\nbatch = 4\n", "steps =   # none\n", "steps = \"\"\n", "steps = ,\n"}) {
    expect_refused(run_with(lines), "run.ini': 'steps' has no value");
  }
  expect_refused(run_with("steps = 0\nfreeze =\n"), "run.ini': 'freeze' has no value");
}

TEST_F(Config, MayHaveComments) {
  const std::string json = folder_ / "a #1 ;b;c.json";
  const Outcome o =
      run_with("# a run\n; of one step\nsteps = 1 # and no more\nbatch = 4\t; samples\nshuffle # \"it's\n" +
               ("json = \"" + json + "\" # quoted\nsave = " + (folder_ / "it's#1.safetensors")) + "\n");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(read_file(json).find("\"step\":1"), std::string::npos);
  EXPECT_EQ(read_file(json).find("\"step\":2"), std::string::npos);
  EXPECT_FALSE(read_file(folder_ / "it's#1.safetensors").empty());
}

}  // namespace
}  // namespace neap
