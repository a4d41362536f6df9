#include "observe/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace neap {
namespace {

TEST(Trace, IsJsonWhateverTheNames) {
  Trace trace("a \"process\"\n");
  trace.name_track(1, "back\\slash");
  trace.span({.track = 1, .begin_ns = 5'000, .end_ns = 7'500, .name = "tab\t", .category = "c"}, R"({"x":1})");
  trace.counter("bytes", 6'000, "live", 42);
  trace.stay({.begin_ns = 6'000, .end_ns = 9'000, .name = "block", .category = "arena"}, 4096);
  const auto events = nlohmann::json::parse(trace.text())["traceEvents"];
  ASSERT_EQ(events.size(), 7U);
  EXPECT_EQ(events[0]["args"]["name"], "a \"process\"\n");
  EXPECT_EQ(events[1]["args"]["name"], "back\\slash");
  EXPECT_EQ(events[3]["name"], "tab\t");
  EXPECT_EQ(events[3]["ts"], 0) << "counted from the first event";
  EXPECT_EQ(events[3]["dur"], 2.5);
  EXPECT_EQ(events[3]["args"]["x"], 1);
  EXPECT_EQ(events[4]["args"]["live"], 42);
  EXPECT_EQ(events[5]["id"], "0x1000");
  EXPECT_EQ(events[6]["ts"], 4);
}

}  // namespace
}  // namespace neap
