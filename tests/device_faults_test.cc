// A device that is not there, too old or full: one line and exit status 4, or training within what there is.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

#ifdef NEAP_FAKE_DRIVER

void expect_no_device(const std::string& driver, const std::string& says) {
  const Outcome o = run_neap("train mlp --steps 1 --device cuda --json -",
                             std::string("LD_LIBRARY_PATH=") + NEAP_FAKE_DRIVER + ":$LD_LIBRARY_PATH " + driver);
  EXPECT_EQ(o.status, 4) << driver << "\n" << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << driver << "\n" << o.err;
  EXPECT_NE(o.err.find(says), std::string::npos) << driver << "\n" << o.err;
  EXPECT_TRUE(o.out.empty());
}

TEST(DeviceFaults, NoDriver) { expect_no_device("FAKE_CUDA_VERSION=0", "there is no NVIDIA driver"); }
TEST(DeviceFaults, NoGpu) { expect_no_device("FAKE_CUDA_INIT=100", "there is no GPU that CUDA can use"); }
TEST(DeviceFaults, ADriverThatIsTooOld) { expect_no_device("FAKE_CUDA_VERSION=11040", "supports CUDA 11.4"); }

// By the first call of all, and by all but the first.
TEST(DeviceFaults, NoMemoryEvenForAContext) {
  expect_no_device("FAKE_CUDA_INIT=2", "no memory left for a CUDA context");
  expect_no_device("FAKE_CUDA_REST=2", "no memory left for a CUDA context");
}

TEST(DeviceFaults, OtherTroubleIsNamed) { expect_no_device("FAKE_CUDA_INIT=999", "cudaGetDeviceCount failed"); }

Outcome run_without_gpu(const std::string& call) {
  return run_neap(call + " --device cuda",
                  std::string("LD_LIBRARY_PATH=") + NEAP_FAKE_DRIVER + ":$LD_LIBRARY_PATH FAKE_CUDA_INIT=100");
}

// A pass that a GPU does not take is refused before there is a device, when it was asked for by its name.
TEST(DeviceFaults, PassesThatAGpuDoesNotTake) {
  for (const char* call : {"train mlp --steps 1", "plan mlp"}) {
    const Outcome named = run_without_gpu(std::string(call) + " --optimize fuse,epilogue");
    EXPECT_EQ(named.status, 2) << named.err;
    EXPECT_EQ(named.err.find("neap: --optimize epilogue: not with --device cuda, which takes "), 0U) << named.err;
    EXPECT_EQ(std::count(named.err.begin(), named.err.end(), '\n'), 1) << named.err;
    const Outcome all = run_without_gpu(std::string(call) + " --optimize all");
    EXPECT_EQ(all.status, 4) << all.err;
    EXPECT_EQ(all.err.find("neap: --optimize all: a GPU does without "), 0U) << all.err;
    EXPECT_NE(all.err.find("epilogue"), std::string::npos) << all.err;
    EXPECT_EQ(std::count(all.err.begin(), all.err.end(), '\n'), 2) << all.err;
    const Outcome adaptive = run_without_gpu(call);
    EXPECT_EQ(std::count(adaptive.err.begin(), adaptive.err.end(), '\n'), 1) << adaptive.err;
  }
  EXPECT_EQ(run_without_gpu("infer mlp --optimize int8,epilogue").status, 2);
  EXPECT_EQ(run_without_gpu("infer mlp --optimize int8").status, 4);
}

#endif

Outcome trained(const std::string& flags) {
  return run_neap("train gpt-mini:layers=2 --batch 4 --length 64 --steps 6 --json - " + flags);
}

std::string hash_in(const Outcome& o) { return lines_of(o.out).back()["weights_hash"].get<std::string>(); }

// Somebody else takes the device's memory before the budget grows.
TEST(DeviceFaults, ABudgetThatCannotGrowStays) {
  const Outcome whole = trained("");
  ASSERT_EQ(whole.status, 0) << whole.err;
  const Outcome o = trained("--budget 60% --budget-schedule 3:90% --spill-fault fail-growth:2");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("the budget stays at"), std::string::npos) << o.err;
  const std::vector<Json> rows = lines_of(o.out);
  ASSERT_EQ(rows.size(), 7U);
  EXPECT_EQ(rows[5]["budget_bytes"], rows[0]["budget_bytes"]);
  EXPECT_EQ(rows.back()["violations"], 0);
  EXPECT_EQ(hash_in(o), hash_in(whole));
}

}  // namespace
}  // namespace neap
