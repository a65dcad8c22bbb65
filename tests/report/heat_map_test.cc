#include "tailrace/report/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tailrace/report/figure.h"

namespace tailrace::report {
namespace {

using testing::HasSubstr;
using testing::Not;

HeatMap small() {
  HeatMap map;
  map.title = "a < b";
  map.columns = 2;
  map.rows = 2;
  map.counts = {0, 1, 100, 10};
  map.x_ticks = {{0, "0"}, {2, "20 & more"}};
  return map;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(HeatMap, DrawsEveryCellThatCountsAndNoOther) {
  const std::string text = svg(small());
  // The ground, three cells, and eight colours of the legend.
  EXPECT_EQ(count_of(text, "<rect"), 1u + 3u + 8u);
  EXPECT_THAT(text, HasSubstr(">100 in a cell<"));
}

TEST(HeatMap, IsDarkerWhereMoreGather) {
  const std::string text = svg(small());
  const std::size_t most = text.find(R"(fill="#08306B")");
  const std::size_t least = text.find(R"(fill="#DCE9F6")");
  // Rows go up: the lower one is drawn first, with its single request.
  EXPECT_LT(least, most);
}

TEST(HeatMap, SharesAScaleWhereOneIsGiven) {
  HeatMap map = small();
  map.darkest = 1'000'000;
  EXPECT_EQ(count_of(svg(map), R"(fill="#08306B")"), 1u);  // the legend's alone
}

TEST(HeatMap, EscapesTextAndStandsMissingCounts) {
  HeatMap map = small();
  map.counts.pop_back();
  const std::string text = svg(map);
  EXPECT_THAT(text, HasSubstr("a &lt; b"));
  EXPECT_THAT(text, HasSubstr("20 &amp; more"));
  EXPECT_THAT(svg(HeatMap{}), HasSubstr("</svg>"));
}

TEST(Figure, LogarithmicHeightsLeaveOutWhatIsNotPositive) {
  Figure figure;
  figure.y.logarithmic = true;
  figure.lines.push_back({"a", {1, 2, 3, 4}, {0.01, 0, 1, 100}, 0});
  const std::string text = svg(figure);
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  EXPECT_THAT(text, HasSubstr(">0.1<"));
  // The zero breaks the line: one point, then two.
  const std::size_t path = text.find("stroke-width=\"2\" stroke-dasharray=\"\"/>\n</g>");
  const std::size_t begin = text.rfind("<path d=\"", path);
  EXPECT_EQ(count_of(text.substr(begin, path - begin), "M"), 2u);
}

}  // namespace
}  // namespace tailrace::report
