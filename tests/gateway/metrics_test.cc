#include "gateway/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, CountsByNameThatWasAnnounced) {
  Metrics metrics("1.2.3");
  metrics.add_model("llama");
  metrics.model("llama").queue_jobs.set(3);
  metrics.model("llama").ttft_seconds.observe(std::chrono::milliseconds(30));
  metrics.count_request("llama", RequestOutcome::kCompleted, 200);
  metrics.add_backend("gpu0");
  metrics.count_upstream_error("gpu0", UpstreamError::kConnect);
  const std::string text = metrics.exposition();
  EXPECT_THAT(text, HasSubstr("tailrace_queue_jobs{model=\"llama\"} 3"));
  EXPECT_THAT(
      text,
      HasSubstr("tailrace_time_to_first_token_seconds_bucket{model=\"llama\",le=\"0.05\"} 1"));
  EXPECT_THAT(text, HasSubstr("outcome=\"completed\""));
  EXPECT_THAT(text, HasSubstr("status_class=\"2xx\""));
  EXPECT_THAT(text,
              HasSubstr("tailrace_backend_errors_total{backend=\"gpu0\",kind=\"connect\"} 1"));
  EXPECT_THAT(text, HasSubstr("version=\"1.2.3\""));
}

TEST(Metrics, ErrorsOfPredictionsAreAbsoluteAndFallIntoBucketsAboveZero) {
  Metrics metrics("1");
  metrics.add_model("llama");
  metrics.model("llama").log_error.observe(0.04);
  metrics.model("llama").log_error.observe(0.65);
  metrics.model("llama").log_error.observe(4);
  const std::string text = metrics.exposition();
  const std::string bucket = "tailrace_prediction_log_error_bucket{model=\"llama\",le=\"";
  EXPECT_THAT(text, Not(HasSubstr(bucket + "-")));
  EXPECT_THAT(text, Not(HasSubstr(bucket + "0\"")));
  EXPECT_THAT(text, HasSubstr(bucket + "0.05\"} 1"));
  EXPECT_THAT(text, HasSubstr(bucket + "0.7\"} 2"));
  EXPECT_THAT(text, HasSubstr(bucket + "5\"} 3"));
}

TEST(Metrics, NamesThatClientsInventBecomeOther) {
  Metrics metrics("1");
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "invented-" + std::to_string(i);
    metrics.count_request(name, RequestOutcome::kRefused, 404);
    metrics.count_refusal(name, dispatch::Refusal::kUnknownModel);
    metrics.model(name).prompt_tokens.add(2);
    metrics.count_upstream_error(name, UpstreamError::kReset);
  }
  const std::string text = metrics.exposition();
  EXPECT_THAT(text, Not(HasSubstr("invented")));
  EXPECT_THAT(text, HasSubstr("tailrace_prompt_tokens_total{model=\"other\"} 20000"));
  EXPECT_LT(text.size(), 100'000u);
}

TEST(Metrics, LabelValuesAreBoundedEvenForOperators) {
  Metrics metrics("1");
  for (int i = 0; i < 1'200; ++i) metrics.add_backend("b" + std::to_string(i));
  EXPECT_EQ(&metrics.backend("b1199"), &metrics.backend("never announced"));
  EXPECT_NE(&metrics.backend("b10"), &metrics.backend("b11"));
}

TEST(Metrics, HandlesStayValidWhileNamesAreAdded) {
  Metrics metrics("1");
  metrics.add_model("a");
  ModelMetrics& a = metrics.model("a");
  for (int i = 0; i < 500; ++i) metrics.add_model("m" + std::to_string(i));
  EXPECT_EQ(&metrics.model("a"), &a);
  a.output_tokens.add(7);
  EXPECT_THAT(metrics.exposition(), HasSubstr("tailrace_output_tokens_total{model=\"a\"} 7"));
}

/// Everything at once, so that every family has a series.
std::string full_exposition() {
  Metrics metrics("1");
  metrics.count_request("m", RequestOutcome::kTimedOut, 0);
  metrics.count_refusal("m", dispatch::Refusal::kDraining);
  metrics.count_left(LeaveState::kStreaming);
  metrics.count_upstream_error("b", UpstreamError::kStatus);
  metrics.count_prediction(PredictionResult::kGiven);
  metrics.add_backend("b");
  metrics.set_paces([](std::string_view) { return TokenPace{20, 0.5, 0.1}; });
  return metrics.exposition();
}

TEST(MetricsCatalogue, EverythingExposedIsInItAndTheOtherWayRound) {
  std::set<std::string> exposed;
  const std::string text = full_exposition();
  for (const auto line : core::split(text, '\n')) {
    if (line.starts_with("# TYPE ")) exposed.insert(std::string(core::split(line, ' ')[2]));
  }
  std::set<std::string> listed;
  for (const auto& metric : metric_catalogue()) listed.insert(std::string(metric.name));
  EXPECT_EQ(exposed, listed);
}

TEST(MetricsCatalogue, NamesFollowTheConventions) {
  for (const auto& metric : metric_catalogue()) {
    EXPECT_TRUE(metric.name.starts_with("tailrace_")) << metric.name;
    EXPECT_EQ(metric.type == "counter", metric.name.ends_with("_total")) << metric.name;
    EXPECT_EQ(metric.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
              std::string_view::npos);
    EXPECT_FALSE(metric.name.find("_ms") != std::string_view::npos)
        << "base units: " << metric.name;
    EXPECT_TRUE(metric.help.ends_with('.')) << metric.name;
  }
}

TEST(MetricsCatalogue, LabelsOfASeriesAreThoseOfItsEntry) {
  const std::string text = full_exposition();
  for (const auto& metric : metric_catalogue()) {
    for (const auto label : core::split(metric.labels, ',')) {
      const auto name = core::trim(label);
      if (name.empty()) continue;
      const auto series = text.find("\n" + std::string(metric.name) +
                                    (metric.type == "histogram" ? "_count{" : "{"));
      ASSERT_NE(series, std::string::npos) << metric.name;
      EXPECT_THAT(text.substr(series, text.find('\n', series + 1) - series),
                  HasSubstr(std::string(name) + "=\""))
          << metric.name;
    }
  }
}

TEST(MetricsCatalogue, ThePageIsUpToDate) {
  auto page = core::read_file(std::string(TAILRACE_SOURCE_DIR) + "/docs/metrics.md", 1 << 20);
  ASSERT_TRUE(page);
  EXPECT_EQ(*page, metrics_reference())
      << "run: tailrace check --metrics-reference > docs/metrics.md";
}

}  // namespace
}  // namespace tailrace::gateway
