#include "core/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace neap {
namespace {

std::string nested(int levels) {
  const auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(JsonDepth, CountsWhatIsOpen) {
  EXPECT_FALSE(is_nested_deeply(nested(kMostJsonLevels)));
  EXPECT_TRUE(is_nested_deeply(nested(kMostJsonLevels + 1)));
  EXPECT_TRUE(is_nested_deeply(std::string(100'000, '[')));
  std::string objects;
  for (int i = 0; i <= kMostJsonLevels; ++i) objects += R"({"a":)";
  EXPECT_TRUE(is_nested_deeply(objects));
  std::string flat = "[";
  for (int i = 0; i < 1000; ++i) flat += "[{}],";
  EXPECT_FALSE(is_nested_deeply(flat + "[]]"));
  EXPECT_FALSE(is_nested_deeply(""));
}

TEST(JsonDepth, LeavesOutWhatStandsInStrings) {
  const std::string open(1000, '[');
  EXPECT_FALSE(is_nested_deeply("[\"" + open + "\"]"));
  EXPECT_FALSE(is_nested_deeply("[\"\\\"" + open + "\"]")) << "an escaped quote ends no string";
  EXPECT_TRUE(is_nested_deeply("[\"\\\\\"," + open)) << "an escaped backslash escapes nothing";
  EXPECT_TRUE(is_nested_deeply("[\"]]]]\"," + open.substr(0, kMostJsonLevels))) << "nor does a string close anything";
}

}  // namespace
}  // namespace neap
