// `neap pack` as a user calls it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/pack_csv.h"
#include "plan/pack_testing.h"
#include "plan/pack_validate.h"
#include "tests/program.h"

namespace neap {
namespace {

using nlohmann::json;

std::string write_problem(const ScratchFolder& folder, const std::vector<PackItem>& items) {
  std::string text = "id,lower,upper,size\n";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += "b" + std::to_string(i) + "," + std::to_string(items[i].lower) + "," + std::to_string(items[i].upper) +
            "," + std::to_string(items[i].size) + "\n";
  }
  write_text(folder / "p.csv", text);
  return folder / "p.csv";
}

void expect_refused(const std::string& arguments, const std::string& names) {
  const Outcome o = run_neap("pack " + arguments);
  EXPECT_EQ(o.status, 2) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_NE(o.err.find(names), std::string::npos) << o.err;
}

TEST(PackProgram, WritesOffsetsById) {
  const ScratchFolder folder;
  RandomStream random(5);
  const auto items = cut_rectangle(random, 50, 1000, 4096);
  const Outcome o = run_neap("pack " + write_problem(folder, items) + " --capacity 4KiB --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const json answer = json::parse(o.out);
  EXPECT_EQ(answer.at("fits"), true);
  EXPECT_EQ(answer.at("capacity"), 4096);
  EXPECT_EQ(answer.at("height"), 4096);
  EXPECT_EQ(answer.at("lower_bound"), 4096);
  EXPECT_GE(answer.at("seconds").get<double>(), 0);
  Packing p{.height = 4096};
  for (std::size_t i = 0; i < items.size(); ++i) p.offsets.push_back(answer.at("offsets").at("b" + std::to_string(i)));
  EXPECT_EQ(find_fault({.items = items, .capacity = 4096}, p), "");
}

TEST(PackProgram, WritesCsvWithoutJson) {
  const ScratchFolder folder;
  write_text(folder / "p.csv", "size,id,lower,upper\n8,x,0,2\n4,y,1,3\n8,z,2,4\n");
  const Outcome o = run_neap("pack " + (folder / "p.csv") + " --capacity 12 --json " + (folder / "p.json"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("id,lower,upper,size,offset\nx,0,2,8,")) << o.out;
  EXPECT_EQ(parse_pack_csv(o.out, "output").items.size(), 3U);
  EXPECT_EQ(json::parse(read_file(folder / "p.json")).at("height"), 12);
}

TEST(PackProgram, SaysWhyItDoesNotFit) {
  const ScratchFolder folder;
  write_text(folder / "p.csv", "id,lower,upper,size\nx,0,20,8\ny,10,30,4\n");
  const Outcome o = run_neap("pack " + (folder / "p.csv") + " --capacity 11 --json -");
  EXPECT_EQ(o.status, 3);
  EXPECT_NE(o.err.find("12 bytes are alive at 10, 1 more than the capacity of 11"), std::string::npos) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_EQ(json::parse(o.out).at("fits"), false);
  EXPECT_EQ(run_neap("pack " + (folder / "p.csv") + " --capacity 11").out, "");
}

TEST(PackProgram, EndsWithItsTime) {
  const ScratchFolder folder;
  RandomStream random(17);
  const std::string file = write_problem(folder, full_load_items(random, 500, 1000));
  const Outcome o = run_neap("pack " + file + " --capacity 1000 --time-limit 0.3 --json -");
  EXPECT_EQ(o.status, 3);
  EXPECT_NE(o.err.find("search limit reached; best height found"), std::string::npos) << o.err;
  EXPECT_LT(json::parse(o.out).at("seconds").get<double>(), 3);
}

TEST(PackProgram, RefusesBadCalls) {
  const ScratchFolder folder;
  write_text(folder / "bad.csv", "id,lower,upper,size\n0,1,2,3\n0,1,2,3\n");
  write_text(folder / "good.csv", "id,lower,upper,size\n0,1,2,3\n");
  expect_refused((folder / "bad.csv") + " --capacity 10", "bad.csv:3: id '0'");
  expect_refused((folder / "missing.csv") + " --capacity 10", "missing.csv");
  expect_refused((folder / ".") + " --capacity 10", "/.");
  expect_refused((folder / "good.csv"), "--capacity");
  expect_refused((folder / "good.csv") + " --capacity lots", "--capacity");
  expect_refused((folder / "good.csv") + " --capacity -1", "--capacity");
  expect_refused((folder / "good.csv") + " --capacity 10 --time-limit 0", "--time-limit");
  expect_refused((folder / "good.csv") + " --capacity 10 --json /missing/x.json", "/missing/x.json");
}

// 20,000 blocks: within 1.05 of the bound, whatever the capacity leaves open.
TEST(PackProgram, PacksManyBlocks) {
  const ScratchFolder folder;
  RandomStream random(47);
  const auto items = random_items(random, {.count = 20'000, .ticks = 20'000, .life = 200, .size = 1000, .unit = 64});
  const Outcome o = run_neap("pack " + write_problem(folder, items) + " --capacity 1GiB --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  const json answer = json::parse(o.out);
  EXPECT_LE(answer.at("height").get<double>(), 1.05 * answer.at("lower_bound").get<double>());
}

}  // namespace
}  // namespace neap
