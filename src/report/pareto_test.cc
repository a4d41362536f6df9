#include "report/pareto.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace neap {
namespace {

using Indices = std::vector<std::size_t>;

const std::vector<ParetoPoint> kRuns = {
    {"all", 1000, 10}, {"half", 500, 12}, {"slow half", 500, 15}, {"worse", 800, 13}, {"least", 200, 30}};

TEST(Pareto, FrontHoldsWhatNoOtherBeatsInBoth) {
  EXPECT_EQ(pareto_front(kRuns), (Indices{4, 1, 0}));
  EXPECT_EQ(pareto_front({{"a", 1, 1}, {"b", 1, 1}}), Indices{0}) << "of equals the first";
  EXPECT_TRUE(pareto_front({}).empty());
}

TEST(Pareto, TextHasEachRunOnceInThePlotAndMarksTheFront) {
  const std::string text = pareto_text(kRuns);
  const std::string plot = text.substr(0, text.find("+--"));
  for (const char c : {'a', 'b', 'c', 'd', 'e'}) {
    EXPECT_NE(plot.find(c, plot.find('\n')), std::string::npos) << c << "\n" << text;
  }
  EXPECT_NE(text.find("e *"), std::string::npos) << text;
  EXPECT_EQ(text.find("d *"), std::string::npos) << text;
}

TEST(Pareto, PointsThatAreAllAlikeAreDrawn) {
  EXPECT_NE(pareto_text({{"one", 0, 0}}).find("one"), std::string::npos);
  EXPECT_EQ(pareto_text({}), "");
}

TEST(Pareto, SvgKeepsNamesAsTextAndDrawsTheFront) {
  const std::string svg = pareto_svg({{"a<b&c", 100, 2}, {"d", 200, 1}}, "x \"y\"");
  EXPECT_NE(svg.find("a&lt;b&amp;c"), std::string::npos);
  EXPECT_EQ(svg.find("a<b"), std::string::npos);
  EXPECT_NE(svg.find("aria-label=\"x &quot;y&quot;\""), std::string::npos);
  const std::size_t line = svg.find("<polyline");
  EXPECT_EQ(std::count(svg.begin() + static_cast<std::ptrdiff_t>(line),
                       svg.begin() + static_cast<std::ptrdiff_t>(svg.find("/>", line)), ','),
            2);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace neap
