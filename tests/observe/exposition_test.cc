#include "tailrace/observe/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kNow = 1'700'000'000;

Exposition read(std::string_view text, ExpositionOptions options = {}) {
  options.time_s = kNow;
  return parse_exposition(text, options);
}
Exposition read_open(std::string_view text) {
  ExpositionOptions options;
  options.format = ExpositionFormat::kOpenMetrics;
  return read(text, options);
}
/// The only value of a page of one sample.
double value(const std::string& text) {
  const Exposition page = read("x " + text + "\n");
  return page.series.size() == 1 ? page.series[0].points.at(0).value : -12345;
}
/// What is wrong with a page that has one fault.
std::string fault(std::string_view text, const ExpositionOptions& options = {}) {
  const Exposition page = read(text, options);
  return page.problems.size() == 1 ? page.problems[0].message
                                   : std::to_string(page.problems.size()) + " problems";
}

TEST(Exposition, ReadsNamesLabelsValuesAndTypes) {
  const Exposition page = read(
      "# HELP vllm:num_requests_running Number of requests\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"a/b\"} 8.0\n"
      "\n"
      "# TYPE latency histogram\n"
      "latency_bucket{le=\"+Inf\"} 3\n"
      "latency_sum 1.5e-3\n"
      "\t spaced \t{ a = \"1\" , b=\"2\", } 4 \n");
  EXPECT_THAT(page.problems, IsEmpty());
  ASSERT_THAT(page.series, SizeIs(4));
  const Labels labels{{"engine", "0"}, {"model_name", "a/b"}};
  EXPECT_EQ(page.series[0].key, (SeriesKey{"vllm:num_requests_running", labels}));
  EXPECT_EQ(page.series[0].points.at(0).value, 8);
  EXPECT_EQ(page.series[0].points.at(0).time_s, kNow);
  EXPECT_EQ(page.series[2].points.at(0).value, 1.5e-3);
  EXPECT_EQ(page.series[3].key, (SeriesKey{"spaced", {{"a", "1"}, {"b", "2"}}}));
  EXPECT_THAT(page.types,
              ElementsAre(testing::Pair("latency", MetricType::kHistogram),
                          testing::Pair("vllm:num_requests_running", MetricType::kGauge)));
  EXPECT_EQ(page.samples, 4U);
}

TEST(Exposition, ReadsEveryWayToWriteANumber) {
  EXPECT_EQ(value("0"), 0);
  EXPECT_EQ(value("+3"), 3);
  EXPECT_EQ(value("-.5"), -0.5);
  EXPECT_EQ(value("1.7382173358407154e+09"), 1738217335.8407154);
  EXPECT_EQ(value("+Inf"), INFINITY);
  EXPECT_EQ(value("-Inf"), -INFINITY);
  EXPECT_EQ(value("inf"), INFINITY);
  EXPECT_TRUE(std::isnan(value("NaN")));
  EXPECT_TRUE(std::isnan(value("nan")));
}

TEST(Exposition, TakesNothingElseForANumber) {
  for (const char* word :
       {"", "abc", "1,5", "0x10", "1e999", "--1", "+-1", "+", "1_000", "nano", "1.5x", "\"3\""}) {
    EXPECT_THAT(fault(std::string("x ") + word + "\n"), HasSubstr("no number")) << word;
  }
}

TEST(Exposition, UndoesEscapesInValuesOfLabels) {
  const Exposition page = read("x{a=\"q\\\"\\\\n\\n,}{#\",path=\"C:\\d\"} 1\n");
  ASSERT_THAT(page.series, SizeIs(1));
  EXPECT_EQ(page.series[0].key.labels.at("a"), "q\"\\n\n,}{#");
  EXPECT_EQ(page.series[0].key.labels.at("path"), "C:\\d") << "an escape that nobody knows";
}

TEST(Exposition, TakesLineEndsOfOtherSystemsAndLabelsWithoutAValue) {
  const Exposition page = read("# TYPE x gauge\r\nx{empty=\"\",a=\"b\"} 1\r\ny 2\r\n");
  EXPECT_THAT(page.problems, IsEmpty());
  ASSERT_THAT(page.series, SizeIs(2));
  EXPECT_EQ(page.series[0].key.labels, (Labels{{"a", "b"}}))
      << "a label without a value is no label";
}

TEST(Exposition, TakesTheTimesThatTheExporterGives) {
  const Exposition page = read("x 1 1700000000250\ny 2\n");
  EXPECT_EQ(page.series.at(0).points.at(0).time_s, 1'700'000'000.25) << "milliseconds";
  EXPECT_EQ(page.series.at(1).points.at(0).time_s, kNow);
  const Exposition open = read_open("x 1 1700000000.25\n# EOF\n");
  EXPECT_EQ(open.series.at(0).points.at(0).time_s, 1'700'000'000.25) << "seconds";
  EXPECT_THAT(fault("x 1 12.5\n"), HasSubstr("no time"));
  EXPECT_THAT(fault("x 1 99999999999999999\n"), HasSubstr("no time"));
  EXPECT_THAT(fault("x 1 1700000000250 7\n"), HasSubstr("more text"));
}

TEST(Exposition, ReadsOpenMetricsAndLeavesExemplarsOut) {
  const Exposition page = read_open(
      "# TYPE foo_seconds counter\n# UNIT foo_seconds seconds\n"
      "foo_seconds_total 17.0 1520879607.789 # {trace_id=\"KOO5S4vxi0o\"} 0.67\n"
      "foo_seconds_created 1520430000.123\n"
      "b_bucket{le=\"1.0\"} 8 # {} 0.054\n"
      "# EOF\n");
  EXPECT_THAT(page.problems, IsEmpty());
  ASSERT_THAT(page.series, SizeIs(3));
  EXPECT_EQ(page.series[0].points.at(0).value, 17);
  EXPECT_EQ(page.series[2].points.at(0).value, 8);
  EXPECT_EQ(page.types.at("foo_seconds"), MetricType::kCounter);
}

TEST(Exposition, TellsAPageThatIsCut) {
  const Exposition page = read("x 12\ny 12");
  EXPECT_THAT(page.series, SizeIs(1)) << "y may have been 123";
  EXPECT_THAT(page.problems.at(0).message, HasSubstr("cut"));
  EXPECT_THAT(read_open("x 1\n").problems.at(0).message, HasSubstr("# EOF"));
  EXPECT_EQ(read_open("").problems.at(0).line, 1U);
  EXPECT_THAT(read("").problems, IsEmpty());
  const Exposition beyond = read_open("x 1\n# EOF\ny 2\nz 3\n");
  EXPECT_THAT(beyond.series, SizeIs(1));
  EXPECT_THAT(beyond.problems, SizeIs(1));
}

TEST(Exposition, NamesABrokenLineAndUsesTheRest) {
  const Exposition page = read("a 1\nb{x=1} 2\nc 3\n# TYPE d banana\n");
  ASSERT_THAT(page.series, SizeIs(2));
  EXPECT_EQ(page.series[1].key.name, "c");
  ASSERT_THAT(page.problems, SizeIs(2));
  EXPECT_EQ(page.problems[0].line, 2U);
  EXPECT_THAT(page.problems[0].message, HasSubstr("\"x\""));
  EXPECT_EQ(page.problems[1].line, 4U);
  EXPECT_THAT(page.problems[1].message, HasSubstr("banana"));
}

TEST(Exposition, SaysWhatIsWrongWithLabels) {
  EXPECT_THAT(fault("x{a=\"1\",a=\"2\"} 1\n"), HasSubstr("comes twice"));
  EXPECT_THAT(fault("x{a=\"1\"b=\"2\"} 1\n"), HasSubstr("comma"));
  EXPECT_THAT(fault("x{a=\"1\n"), HasSubstr("does not end"));
  EXPECT_THAT(fault("x{a=\"1\"\n"), HasSubstr("do not end"));
  EXPECT_THAT(fault("x{a} 1\n"), HasSubstr("no ="));
  EXPECT_THAT(fault("x{1a=\"\"} 1\n"), HasSubstr("name of a label"));
  EXPECT_THAT(fault("x{a=\"\xff\"} 1\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(fault("x{__name__=\"y\"} 1\n"), HasSubstr("__name__"));
  EXPECT_THAT(fault("{a=\"1\"} 1\n"), HasSubstr("no name"));
  EXPECT_THAT(fault("7up 1\n"), HasSubstr("name of a metric"));
  ExpositionOptions options;
  options.labels_max = 1;
  EXPECT_THAT(fault("x{a=\"1\",b=\"2\"} 1\n", options), HasSubstr("more than 1 labels"));
}

TEST(Exposition, ReadsNamesInQuotes) {
  const Exposition page = read("{\"my.metric\",\"a.b\"=\"1\",c=\"2\"} 3\n");
  ASSERT_THAT(page.series, SizeIs(1));
  EXPECT_EQ(page.series[0].key, (SeriesKey{"my.metric", {{"a.b", "1"}, {"c", "2"}}}));
  EXPECT_THAT(fault("x{\"y\"} 1\n"), HasSubstr("two names"));
}

TEST(Exposition, KeepsTheFirstOfASeriesThatComesTwice) {
  const Exposition page = read("x{a=\"1\",b=\"2\"} 1\nx{b=\"2\",a=\"1\"} 7\n");
  ASSERT_THAT(page.series, SizeIs(1));
  EXPECT_EQ(page.series[0].points.size(), 1U);
  EXPECT_EQ(page.series[0].points[0].value, 1);
  EXPECT_THAT(page.problems.at(0).message, HasSubstr("twice"));
}

TEST(Exposition, JoinsPointsOfOneSeriesWithTimesOfTheirOwn) {
  const Exposition page = read_open("x 1 100\nx 2 200\nx 3 150\n# EOF\n");
  ASSERT_THAT(page.series, SizeIs(1));
  EXPECT_THAT(page.series[0].points, SizeIs(2));
  EXPECT_THAT(page.problems, SizeIs(1)) << "time does not run backwards";
}

TEST(Exposition, KeepsOnlyWhatIsWanted) {
  const std::set<std::string, std::less<>> wanted{"b", "d_bucket"};
  ExpositionOptions options;
  options.only = &wanted;
  const Exposition page = read(
      "# TYPE a gauge\na 1\nb 2\n# TYPE d histogram\nd_bucket{le=\"1\"} 3\nd_sum 4\n", options);
  ASSERT_THAT(page.series, SizeIs(2));
  EXPECT_EQ(page.samples, 4U);
  EXPECT_THAT(page.types, ElementsAre(testing::Pair("d", MetricType::kHistogram)));
}

TEST(Exposition, EndsAtItsLimits) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x{i=\"" + std::to_string(i) + "\"} 1\n";
  ExpositionOptions options;
  options.series_max = 10;
  const Exposition page = read(text, options);
  EXPECT_THAT(page.series, SizeIs(10));
  ASSERT_THAT(page.problems, SizeIs(1)) << "said once";
  EXPECT_THAT(page.problems[0].message, HasSubstr("more than 10 series"));

  options.line_bytes_max = 20;
  EXPECT_THAT(fault("x{a=\"" + std::string(30, 'b') + "\"} 1\n", options), HasSubstr("longer"));

  std::string broken;
  for (int i = 0; i < 100; ++i) broken += "<p>\n";
  const Exposition page_of_html = read(broken);
  EXPECT_THAT(page_of_html.problems, SizeIs(10));
  EXPECT_EQ(page_of_html.problems_left_out, 90U);
}

}  // namespace
}  // namespace tailrace::observe
