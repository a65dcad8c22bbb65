#include "tailrace/loadgen/load_report.h"

#include <gtest/gtest.h>
#include <simdjson.h>

namespace tailrace::loadgen {
namespace {

RequestOutcome completed(std::string id, double ttft_s, double e2e_s, std::int64_t tokens) {
  RequestOutcome outcome;
  outcome.id = std::move(id);
  outcome.ttft_s = ttft_s;
  outcome.itl_mean_s = (e2e_s - ttft_s) / static_cast<double>(tokens);
  outcome.e2e_s = e2e_s;
  outcome.output_tokens = tokens;
  outcome.tokens_from_usage = true;
  outcome.status = 200;
  outcome.finish_reason = "stop";
  return outcome;
}

RequestOutcome failed(std::string error) {
  RequestOutcome outcome;
  outcome.error = std::move(error);
  return outcome;
}

TEST(LoadReport, GoodputIsAShareOfWhatWasOffered) {
  const std::vector<RequestOutcome> outcomes{completed("a", 0.1, 1, 10), completed("b", 5, 6, 20),
                                             failed("http_429"), failed("http_429")};
  const LoadReport report = summarise_run(outcomes, {}, {.ttft_s = 1.0, .itl_s = {}}, 1);
  EXPECT_EQ(report.offered, 4u);
  EXPECT_EQ(report.completed, 2u);
  EXPECT_EQ(report.errors.at("http_429"), 2u);
  EXPECT_EQ(report.met_targets, 1u);
  EXPECT_DOUBLE_EQ(report.per_token_s->mean, (0.1 + 0.3) / 2);
  simdjson::dom::parser parser;
  const std::string text = to_json(report);
  const auto json = parser.parse(text).value();
  EXPECT_DOUBLE_EQ(double(json.at_pointer("/goodput/share")), 0.25);
  EXPECT_TRUE(json["itl_s"].is_null()) << "no sample is null, not zero";
}

TEST(LoadReport, SaysWhatTheFirstFailureOfAKindSaid) {
  const std::vector<RequestOutcome> outcomes{failed("http_404"), failed("timeout")};
  LoadReport report = summarise_run(outcomes, {}, {}, 1);
  report.first_errors["http_404"] = "no such model\n";
  EXPECT_NE(to_text(report).find("failed http_404: 1; the first: \"no such model\\x0a\"\n"),
            std::string::npos)
      << to_text(report);
  EXPECT_NE(to_text(report).find("failed timeout: 1\n"), std::string::npos);
  EXPECT_NE(to_json(report).find(R"("first_errors":{"http_404":"no such model\n"})"),
            std::string::npos);
}

TEST(LoadReport, WarnsWhenEveryAnswerHasOneLength) {
  const std::vector<RequestOutcome> same{completed("a", 1, 1, 64), completed("b", 1, 1, 64)};
  ASSERT_EQ(summarise_run(same, {}, {}, 1).warnings.size(), 1u);
  const std::vector<RequestOutcome> other{completed("a", 1, 1, 64), completed("b", 1, 1, 65)};
  EXPECT_TRUE(summarise_run(other, {}, {}, 1).warnings.empty());
}

TEST(LoadReport, WarnsWhenTheGeneratorWasLateInRealTime) {
  std::vector<RequestOutcome> outcomes{completed("a", 1, 1, 64), completed("b", 1, 1, 65)};
  for (RequestOutcome& outcome : outcomes) outcome.sent_s = 0.1;
  EXPECT_EQ(summarise_run(outcomes, {}, {}, 1).warnings.size(), 1u);
  EXPECT_TRUE(summarise_run(outcomes, {}, {}, 20).warnings.empty())
      << "a tenth of an emulated second is 5 ms at 20 times";
}

TEST(LoadReport, CsvQuotesWhatNeedsIt) {
  const std::vector<RequestOutcome> outcomes{completed("a,\"b\"", 0.5, 1, 10)};
  const std::string csv = to_csv(outcomes);
  EXPECT_NE(csv.find("\n\"a,\"\"b\"\"\",0.000000,0.000000,0.500000,"), std::string::npos) << csv;
}

TEST(LatencySketch, IsWithinOnePercentAndExactInTheMean) {
  report::LatencySketch sketch;
  for (int i = 1; i <= 1000; ++i) sketch.add(i * 0.001);
  const auto summary = sketch.summary();
  EXPECT_NEAR(summary->mean, 0.5005, 1e-9);
  EXPECT_NEAR(summary->p50, 0.5, 0.006);
  EXPECT_NEAR(summary->p99, 0.99, 0.011);
  EXPECT_DOUBLE_EQ(summary->max, 1);
  EXPECT_FALSE(report::LatencySketch().summary());
}

}  // namespace
}  // namespace tailrace::loadgen
