#include "tailrace/report/figure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

TEST(FigureSvg, HoldsNoCharacterThatXmlForbids) {
  Figure figure = small();
  figure.title = "a\x01\ufffe\uffff\xff\ufffd<é";
  const std::string text = svg(figure);
  EXPECT_NE(text.find(">a \ufffd\ufffd?\ufffd&lt;é<"), std::string::npos) << text;
  EXPECT_EQ(text.find("\ufffe"), std::string::npos);
  EXPECT_EQ(text.find("\uffff"), std::string::npos);
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

/// The numbers beside the y axis: labels that end at its left.
std::vector<double> y_ticks(const std::string& text) {
  std::vector<double> ticks;
  constexpr std::string_view kBefore = "text-anchor=\"end\" fill=\"#222222\">";
  for (std::size_t at = text.find(kBefore); at != std::string::npos; at = text.find(kBefore, at)) {
    at += kBefore.size();
    ticks.push_back(std::stod(text.substr(at)));
  }
  return ticks;
}

TEST(FigureSvg, ALogarithmicAxisHasTwoTicksOrMoreHoweverNarrowItsRange) {
  for (const double least : {1.0, 22.3, 0.8, 6.1e-4, 0.999999, 123456.0, 2.0}) {
    for (const double factor : {1.0, 1.00001, 1.1, 1.5, 3.9, 12.0, 316.0, 1e7}) {
      Figure figure;
      figure.y.logarithmic = true;
      figure.lines = {{"arm", {1, 2}, {least, least * factor}, 0}};
      const std::vector<double> ticks = y_ticks(svg(figure));
      ASSERT_GE(ticks.size(), 2u) << least << " to " << least * factor;
      EXPECT_EQ(std::adjacent_find(ticks.begin(), ticks.end(), std::greater_equal<>()), ticks.end())
          << "each above the one before";
      EXPECT_LE(ticks.size(), 9u) << least << " to " << least * factor;
      for (const double tick : ticks) {
        EXPECT_GE(tick, least / 1.2);
        EXPECT_LE(tick, least * factor * 1.2);
      }
    }
  }
}

TEST(FigureSvg, NeighbouringTicksAreToldApartByAsManyDigitsAsItTakes) {
  Figure figure;
  figure.x = {"requests/s", true};
  figure.lines = {{"arm", {45.0, 45.000002}, {1, 2}, 0}};
  const std::string text = svg(figure);
  EXPECT_EQ(count(text, ">45.0000005</text>"), 1u);
  EXPECT_EQ(count(text, ">45.000001</text>"), 1u);
}

/// Where the first element that begins with `tag` and holds `what` has its attribute.
double attribute(const std::string& text, std::string_view tag, std::string_view what,
                 const std::string& name) {
  for (std::size_t at = text.find(tag); at != std::string::npos; at = text.find(tag, at + 1)) {
    const std::string element = text.substr(at, text.find('\n', at) - at);
    if (element.find(what) == std::string::npos) continue;
    const std::string key = " " + name + "=\"";
    return std::stod(element.substr(element.find(key) + key.size()));
  }
  ADD_FAILURE() << tag << " with " << what;
  return NAN;
}

TEST(FigureSvg, TheLegendStandsAboveTheDataWhateverItsSize) {
  for (const std::size_t laws : {1u, 8u, 40u}) {
    Figure figure = small();
    for (std::size_t i = 0; i < laws; ++i) {
      figure.lines.push_back({"a law of some name " + std::to_string(i), {0, 20}, {0.1, 0.1}, i});
    }
    figure.dots = "share at the cap";
    const std::string text = svg(figure);
    const double plot = attribute(text, "<clipPath", "rect", "y");
    double last = 0;
    for (const FigureLine& line : figure.lines) {
      const std::string label = ">" + line.label + "</text>";
      const double y = attribute(text, "<text", label, "y");
      EXPECT_LT(y, plot) << line.label;
      EXPECT_GE(y, last) << "rows follow each other";
      last = y;
    }
    EXPECT_LT(attribute(text, "<text", ">share at the cap<", "y"), plot);
    EXPECT_GT(attribute(text, "<text", ">tokens<", "y"), plot + 300) << "the plot keeps its height";
  }
}

TEST(FigureSvg, SinglePointsAreCirclesThatTheLegendNames) {
  Figure figure = small();
  figure.lines.push_back({"", {15}, {0.4}, 0});
  EXPECT_EQ(count(svg(figure), "<circle"), 1u);
  figure.dots = "share at the cap";
  const std::string text = svg(figure);
  EXPECT_EQ(count(text, "<circle"), 2u);
  EXPECT_EQ(count(text, ">share at the cap</text>"), 1u);
}

TEST(FigureSvg, TheAxisGoesBelowZeroWhereALineDoes) {
  Figure figure;
  figure.x = {"rows learned", false};
  figure.lines = {{"tau", {0, 1, 2}, {-0.4, 0.1, 0.5}, 0}};
  const std::string text = svg(figure);
  const double plot = attribute(text, "<clipPath", "rect", "y");
  const double bottom = plot + attribute(text, "<clipPath", "rect", "height");
  EXPECT_LT(attribute(text, "<text", ">-0.4</text>", "y"), bottom);
  EXPECT_LT(attribute(text, "<text", ">0</text>", "y"),
            attribute(text, "<text", ">-0.4</text>", "y"));
  figure.lines[0].y = {-3, -2, -1};
  EXPECT_NE(svg(figure).find(">-3</text>"), std::string::npos) << "nothing above 0";
  EXPECT_EQ(svg(small()).find(">-"), std::string::npos) << "nothing below 0";
}

TEST(FigureSvg, BarsMayHaveNamesInPlaceOfNumbers) {
  Figure figure = small();
  figure.bars.categories = {"50 %", "<80 %"};
  const std::string text = svg(figure);
  EXPECT_EQ(count(text, ">50 %</text>"), 1u);
  EXPECT_EQ(count(text, ">&lt;80 %</text>"), 1u);
  EXPECT_EQ(count(text, ">10</text>"), 0u);
}

}  // namespace
}  // namespace tailrace::report
