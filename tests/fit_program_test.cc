// What `neap fit` says, and `neap pretrain` where it cannot write.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace neap {
namespace {

// One more sample may need less than a tenth of a MiB more.
TEST(FitProgram, SaysBytesExactly) {
  const std::string call = "fit mlp:hidden=16 --budget 3000001";
  const Outcome lines = run_neap(call + " --json -");
  ASSERT_EQ(lines.status, 0) << lines.err;
  const auto report = nlohmann::json::parse(lines.out);
  const Outcome o = run_neap(call);
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("of 2.9 MiB (3000001 bytes)"), std::string::npos) << o.out;
  for (const char* key : {"min_budget_bytes", "next_bytes"}) {
    const std::string bytes = fmt::format("({} bytes)", report[key].get<std::int64_t>());
    EXPECT_NE(o.out.find(bytes), std::string::npos) << key << bytes << o.out;
  }
}

TEST(PretrainProgram, NamesTheFolderThatCannotBeMade) {
  const Outcome o = run_neap("pretrain recurrent --seconds 0.1 --rounds 1", "env -u XDG_CACHE_HOME HOME=/dev/null");
  EXPECT_EQ(o.status, 2) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.err.find("'/dev/null/.cache/neap'"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("--save"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace neap
