// `neap profile` as a user calls it: layers, then the tree of subgraphs.
#include <gtest/gtest.h>

#include <map>

#include "tests/json_lines.h"
#include "tests/program.h"

namespace neap {
namespace {

TEST(ProfileProgram, PrintsTheTreeOfSubgraphs) {
  const Outcome o = run_neap("profile mlp --batch 8 --steps 2 --initial-granularity 2 --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  std::vector<Json> pieces;
  std::vector<Json> layers;
  int ceilings = 0;
  for (const Json& line : lines_of(o.out)) {
    if (line.contains("subgraph")) pieces.push_back(line);
    if (line.contains("traffic_bytes")) layers.push_back(line);
    if (line.contains("ceilings")) {
      ++ceilings;
      EXPECT_GT(line["gflops"], 0);
      EXPECT_GT(line["bytes_per_second"]["memory"], 0);
      EXPECT_TRUE(line["clock_mhz"].contains("source"));
    }
  }
  EXPECT_EQ(ceilings, 1);
  EXPECT_GE(layers.size(), 4U);
  ASSERT_GE(pieces.size(), 7U);  // two cuts deep
  EXPECT_EQ(pieces[0]["depth"], 0);
  EXPECT_GE(pieces[0]["memory_bytes"]["value"], 0);  // this net fits into a large cache
  for (const char* rate : {"l1_hit_rate", "l2_hit_rate", "l3_hit_rate"}) {
    ASSERT_TRUE(pieces[0][rate].contains("value")) << rate;
    EXPECT_GE(pieces[0][rate]["value"], 0) << rate;
    EXPECT_LE(pieces[0][rate]["value"], 1) << rate;
  }
  int nodes = 0;
  double ms = 0;
  for (const Json& piece : pieces) {
    EXPECT_TRUE(piece["bound"] == "compute" || piece["bound"] == "memory");
    EXPECT_GE(piece["roofline"], 0);
    EXPECT_TRUE(piece["memory_bytes"]["source"] == "hw" || piece["memory_bytes"]["source"] == "modelled");
    EXPECT_GE(piece["memory_utilisation"], 0);
    if (!piece["leaf"]) continue;
    nodes += piece["nodes"].get<int>();
    ms += piece["ms"].get<double>();
  }
  EXPECT_EQ(nodes, pieces[0]["nodes"]);  // leaves cover the whole, once
  EXPECT_NEAR(ms, pieces[0]["ms"], 1e-6);
}

TEST(ProfileProgram, SaysHowManyBytesOfParametersALayerReads) {
  const Outcome o = run_neap("profile mlp --batch 8 --steps 2 --json -");
  ASSERT_EQ(o.status, 0) << o.err;
  std::map<std::string, std::int64_t> bytes;
  for (const Json& line : lines_of(o.out)) {
    if (line.contains("traffic_bytes")) bytes[line["name"]] = line["parameter_bytes"];
  }
  EXPECT_EQ(bytes["fc1"], (784 * 256 + 256) * 4);
  EXPECT_EQ(bytes["relu"], 0);
  EXPECT_EQ(bytes["optimizer"], 0) << "what it reads is not the layer's own";
}

TEST(ProfileProgram, SaysWhyPiecesWereSplit) {
  const ScratchFolder folder;  // nothing of so small a net comes near the roofline
  write_text(folder / "c.cfg", "initial_granularity = 1\nperformance_threshold = 0.99\nmerging_threshold = 1\n");
  const Outcome o =
      run_neap("profile gpt-mini:layers=1 --batch 4 --length 64 --steps 3 --window 2 --config " + (folder / "c.cfg"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("\nsplit "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("worst is"), std::string::npos);
  EXPECT_NE(o.out.find("gained ms"), std::string::npos);
}

}  // namespace
}  // namespace neap
