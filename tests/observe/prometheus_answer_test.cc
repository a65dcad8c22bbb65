#include "tailrace/observe/prometheus_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string success(const std::string& type, const std::string& result) {
  return R"({"status":"success","data":{"resultType":")" + type + R"(","result":)" + result + "}}";
}
PrometheusAnswer read(const std::string& body, const PrometheusAnswerLimits& limits = {}) {
  const auto answer = parse_prometheus_answer(body, limits);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer.value_or(PrometheusAnswer{});
}
Error error_of(const std::string& body) {
  const auto answer = parse_prometheus_answer(body);
  EXPECT_FALSE(answer) << body;
  return answer ? Error{} : answer.error();
}

TEST(PrometheusAnswer, ReadsAVector) {
  const auto answer = read(success("vector", R"([
    {"metric":{"__name__":"up","pod":"a","gone":""},"value":[1721417625.093,"1"]},
    {"metric":{"pod":"b"},"value":[1721417625,"NaN"]},
    {"metric":{},"value":[1721417625,"-Inf"]}])"));
  EXPECT_EQ(answer.kind, PrometheusAnswer::Kind::kVector);
  ASSERT_THAT(answer.series, SizeIs(3));
  EXPECT_EQ(answer.series[0].key, (SeriesKey{"up", {{"pod", "a"}}}));
  EXPECT_EQ(answer.series[0].points.at(0).time_s, 1721417625.093);
  EXPECT_EQ(answer.series[0].points.at(0).value, 1);
  EXPECT_TRUE(std::isnan(answer.series[1].points.at(0).value));
  EXPECT_EQ(answer.series[2].points.at(0).value, -INFINITY);
  EXPECT_THAT(answer.problems, IsEmpty());
}

TEST(PrometheusAnswer, ReadsAMatrixAScalarAndAString) {
  const auto matrix =
      read(success("matrix", R"([{"metric":{"__name__":"x"},"values":[[1,"2"],[3.5,"4"]]}])"));
  ASSERT_THAT(matrix.series, SizeIs(1));
  ASSERT_THAT(matrix.series[0].points, SizeIs(2));
  EXPECT_EQ(matrix.series[0].points[1].time_s, 3.5);
  const auto scalar = read(success("scalar", R"([10, "0.25"])"));
  EXPECT_EQ(scalar.kind, PrometheusAnswer::Kind::kScalar);
  EXPECT_EQ(scalar.series.at(0).points.at(0).value, 0.25);
  const auto text = read(success("string", R"([10, "hello"])"));
  EXPECT_EQ(text.kind, PrometheusAnswer::Kind::kString);
  EXPECT_EQ(text.text, "hello");
  EXPECT_THAT(text.series, IsEmpty());
}

TEST(PrometheusAnswer, AnEmptyAnswerIsNoSeriesAndNeverAZero) {
  EXPECT_THAT(read(success("vector", "[]")).series, IsEmpty());
  EXPECT_THAT(read(success("matrix", "[]")).series, IsEmpty());
  EXPECT_THAT(read(success("matrix", R"([{"metric":{},"values":[]}])")).series, IsEmpty());
}

TEST(PrometheusAnswer, RepeatsWhatTheServerSays) {
  const Error wrong = error_of(
      R"({"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected end"})");
  EXPECT_EQ(wrong.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(wrong.message, HasSubstr("1:5: parse error: unexpected end"));
  const Error busy =
      error_of(R"({"status":"error","errorType":"timeout","error":"query timed out"})");
  EXPECT_EQ(busy.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error_of(R"({"status":"error"})").code, ErrorCode::kUnavailable);
}

TEST(PrometheusAnswer, PassesOnWarningsAndPartialAnswers) {
  const auto answer = read(
      R"({"status":"success","isPartial":true,"warnings":["store 10.0.0.1 is away", 7],
          "data":{"resultType":"vector","result":[]}})");
  EXPECT_THAT(answer.warnings, ElementsAre(HasSubstr("partial"), "store 10.0.0.1 is away"));
}

TEST(PrometheusAnswer, TellsWhatIsNoAnswer) {
  EXPECT_THAT(error_of("\n <!DOCTYPE html><html>").message, HasSubstr("HTML"));
  EXPECT_THAT(error_of("").message, HasSubstr("no JSON"));
  EXPECT_THAT(error_of(R"({"status":"success","data":{"resultTy)").message, HasSubstr("cut"));
  EXPECT_THAT(error_of("[1]").message, HasSubstr("no object"));
  EXPECT_THAT(error_of(R"({"status":"ok"})").message, HasSubstr("\"ok\""));
  EXPECT_THAT(error_of(R"({"status":"success"})").message, HasSubstr("no data"));
  EXPECT_THAT(error_of(success("streams", "[]")).message, HasSubstr("streams"));
  EXPECT_THAT(error_of(success("vector", "{}")).message, HasSubstr("no list"));
  EXPECT_THAT(error_of(success("scalar", "[1]")).message, HasSubstr("scalar"));
  EXPECT_THAT(error_of(success("scalar", R"([1,2])")).message, HasSubstr("scalar"))
      << "values come as text";
  EXPECT_THAT(error_of(success("string", "7")).message, HasSubstr("string"));
  for (const char* body : {"null", "7", "\"x\"", "{}", "{\"status\":1}"}) {
    EXPECT_EQ(error_of(body).code, ErrorCode::kDataLoss) << body;
  }
}

TEST(PrometheusAnswer, NamesTheSeriesThatItCannotReadAndUsesTheRest) {
  const auto answer = read(success("vector", R"([
    7,
    {"metric":{"__name__":"a","x":1},"value":[1,"1"]},
    {"metric":{"__name__":"b"}},
    {"metric":{"__name__":"c"},"value":[1,"one"]},
    {"metric":{"__name__":"d"},"value":[1,2]},
    {"metric":{"__name__":"e"},"value":["1","2"]},
    {"metric":{"__name__":"f"},"value":[1,"1e999"]},
    {"metric":{"__name__":"g"},"histogram":[1,{"count":"3"}]},
    {"metric":{"__name__":"good"},"value":[1,"2"]}])"));
  ASSERT_THAT(answer.series, SizeIs(1));
  EXPECT_EQ(answer.series[0].key.name, "good");
  ASSERT_THAT(answer.problems, SizeIs(8));
  EXPECT_THAT(answer.problems[3], HasSubstr("\"c\""));
  EXPECT_THAT(answer.problems[7], HasSubstr("native histogram"));
}

TEST(PrometheusAnswer, KeepsOnlyTimesThatRise) {
  const auto answer =
      read(success("matrix", R"([{"metric":{},"values":[[1,"2"],[1,"3"],[0,"4"],[5,"6"]]}])"));
  EXPECT_THAT(answer.series.at(0).points, SizeIs(2));
  EXPECT_THAT(answer.problems, SizeIs(2));
}

TEST(PrometheusAnswer, EndsAtItsLimits) {
  PrometheusAnswerLimits limits;
  limits.series_max = 2;
  limits.points_max = 3;
  limits.problems_max = 1;
  const std::string one = R"({"metric":{},"values":[[1,"1"],[2,"2"]]})";
  const auto answer = read(success("matrix", "[" + one + "," + one + "," + one + "]"), limits);
  EXPECT_THAT(answer.series, SizeIs(2));
  EXPECT_THAT(answer.series[1].points, SizeIs(1));
  EXPECT_THAT(answer.problems, ElementsAre(HasSubstr("more than 3 values"), "and 1 more"));
}

}  // namespace
}  // namespace tailrace::observe
