#include "tailrace/report/figure.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::report {
namespace {

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

Figure small() {
  Figure figure;
  figure.title = "lengths";
  figure.x = {"tokens", false};
  figure.bars = {"recorded", {0, 10, 20}, {0.25, 0.75}};
  figure.lines = {{"law", {0, 10, 20}, {0.2, 0.5, 0.3}, 0}};
  return figure;
}

TEST(FigureSvg, DrawsABarForEachHeightAndALineWithItsLegend) {
  const std::string text = svg(small());
  EXPECT_TRUE(text.starts_with("<svg xmlns="));
  EXPECT_TRUE(text.ends_with("</svg>\n"));
  // Two bars and the legend's swatch.
  EXPECT_EQ(count(text, "#C8CDD2"), 3u);
  EXPECT_EQ(count(text, ">law</text>"), 1u);
  EXPECT_EQ(count(text, ">-0<"), 0u);
  EXPECT_EQ(count(text, "<path d=\"M64.0"), 1u);
}

TEST(FigureSvg, TextIsEscapedWhereverItComesFrom) {
  Figure figure = small();
  figure.title = "<script>alert(\"&\")</script>\x01";
  figure.description = "</desc><b>";
  figure.x.title = "a<b";
  figure.lines[0].label = "</svg>";
  const std::string text = svg(figure);
  EXPECT_EQ(text.find("<script>"), std::string::npos);
  EXPECT_EQ(text.find("<b>"), std::string::npos);
  EXPECT_EQ(count(text, "</svg>"), 1u);
  EXPECT_EQ(text.find('\x01'), std::string::npos);
  EXPECT_NE(text.find("&lt;script&gt;alert(&quot;&amp;&quot;)"), std::string::npos);
}

TEST(FigureSvg, EmptyOrInfiniteDataDrawsAxesAndNoNaN) {
  for (const bool logarithmic : {false, true}) {
    Figure figure;
    figure.x.logarithmic = logarithmic;
    figure.lines = {{"odd", {1, NAN, 5, 7}, {INFINITY, 1, 2, NAN}, 11}};
    for (const std::string& text : {svg(Figure{}), svg(figure)}) {
      EXPECT_EQ(text.find("nan"), std::string::npos);
      EXPECT_EQ(text.find("inf"), std::string::npos);
    }
  }
}

TEST(FigureSvg, ASpikeIsCutSoThatBarsStayVisible) {
  Figure figure = small();
  figure.lines[0].y = {0, 1000, 0};
  const std::string text = svg(figure);
  EXPECT_NE(text.find(">0.5</text>"), std::string::npos) << "the axis still counts in tenths";
  EXPECT_NE(text.find("clip-path"), std::string::npos);
}

TEST(FigureSvg, ALogarithmicAxisHasRoundTicks) {
  Figure figure = small();
  figure.x.logarithmic = true;
  figure.bars.edges = {1, 100, 100000};
  figure.lines.clear();
  const std::string text = svg(figure);
  for (const char* tick : {">10</text>", ">1000</text>", ">100000</text>"}) {
    EXPECT_NE(text.find(tick), std::string::npos) << tick;
  }
}

}  // namespace
}  // namespace tailrace::report
