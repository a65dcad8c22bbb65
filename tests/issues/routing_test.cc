// Public reports of routers that trusted what engines had said some time ago. Names carry the
// repository and the number.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "issues/support/given_workload.h"
#include "tailrace/core/rng.h"

namespace tailrace::simulate {
namespace {

/// Twenty requests a second, each about 1.3 s long, on four engines with room for all.
std::vector<Request> steady_requests(int count) {
  Rng rng(7);
  std::vector<Request> requests;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    at += rng.exponential() / 20;
    requests.push_back(request(static_cast<std::uint64_t>(i), at, 64,
                               50 + static_cast<std::int64_t>(rng.below(100))));
  }
  return requests;
}

RunSpec four_engines(FrontSpec::Choice choice) {
  RunSpec spec;
  spec.fleet.engines = 4;
  spec.fleet.engine.cost.alpha_ms = 13;
  spec.fleet.engine.max_num_seqs = 64;
  spec.front.choice = choice;
  return spec;
}

double share_of_engine(const std::vector<RequestRecord>& records, int engine) {
  const auto there = std::count_if(records.begin(), records.end(),
                                   [engine](const auto& r) { return r.engine == engine; });
  return static_cast<double>(there) / static_cast<double>(records.size());
}

// An endpoint's metrics hang at "idle", and every request is sent to it.
TEST(GatewayApiInferenceExtension1497, APodWhoseMetricsFrozeAtIdleGetsABoundedShare) {
  RunSpec spec = four_engines(FrontSpec::Choice::kLeastReported);
  spec.front.staleness = std::chrono::milliseconds(50);
  spec.front.frozen_engine = 2;
  spec.front.corrected_reports = false;
  const auto trusting = records_of(spec, steady_requests(600));
  ASSERT_EQ(trusting.size(), 600u);
  EXPECT_GT(share_of_engine(trusting, 2), 0.75) << "the report's behaviour, reproduced";

  spec.front.corrected_reports = true;
  const auto corrected = records_of(spec, steady_requests(600));
  ASSERT_EQ(corrected.size(), 600u);
  EXPECT_LT(share_of_engine(corrected, 2), 0.40);
}

// Polling every 50 ms from every gateway loads the engines. A router that counts what it has sent
// and what has ended needs no report, so none can be old, and balances as well as if it polled for
// every request.
TEST(GatewayApiInferenceExtension189, CountingWhatWasSentNeedsNoPolls) {
  const auto mean_ttft_ms = [](FrontSpec::Choice choice, Duration staleness) {
    RunSpec spec = four_engines(choice);
    spec.fleet.engine.max_num_seqs = 8;
    spec.front.staleness = staleness;
    spec.front.corrected_reports = choice != FrontSpec::Choice::kLeastReported;
    double sum = 0;
    const auto records = records_of(spec, steady_requests(600));
    EXPECT_EQ(records.size(), 600u);
    for (const RequestRecord& r : records) sum += to_millis(*r.first_token - r.arrival);
    return sum / static_cast<double>(records.size());
  };
  const double counted = mean_ttft_ms(FrontSpec::Choice::kLeastOutstanding, Duration{0});
  const double polled_for_each = mean_ttft_ms(FrontSpec::Choice::kLeastReported, Duration{0});
  const double polled_each_second =
      mean_ttft_ms(FrontSpec::Choice::kLeastReported, std::chrono::seconds(1));
  EXPECT_LT(counted, 1.05 * polled_for_each);
  EXPECT_GT(polled_each_second, 2 * counted) << "old reports are what the polls are against";
}

// A snapshot without an age cannot be doubted. Every run says how old the reports were that engines
// were chosen by.
TEST(GatewayApiInferenceExtension189, EveryChoiceKnowsTheAgeOfWhatItWasMadeFrom) {
  const auto totals_of = [](FrontSpec::Choice choice, Duration staleness, int frozen) {
    RunSpec spec = four_engines(choice);
    spec.front.staleness = staleness;
    spec.front.frozen_engine = frozen;
    RunTotals totals;
    EXPECT_EQ(records_of(spec, steady_requests(600), &totals).size(), 600u);
    return totals;
  };
  const auto kReported = FrontSpec::Choice::kLeastReported;
  const RunTotals each_second = totals_of(kReported, std::chrono::seconds(1), -1);
  EXPECT_NEAR(*each_second.mean_report_age_s, 0.5, 0.05) << "arrivals fall anywhere in between";
  EXPECT_LT(*each_second.max_report_age_s, 1);
  EXPECT_GT(*each_second.max_report_age_s, 0.95);
  EXPECT_EQ(totals_of(kReported, Duration{0}, -1).max_report_age_s, 0);
  const RunTotals hanging = totals_of(kReported, std::chrono::milliseconds(50), 2);
  EXPECT_EQ(hanging.max_report_age_s, to_seconds(hanging.last_arrival));
  const RunTotals counting = totals_of(FrontSpec::Choice::kLeastOutstanding, Duration{0}, -1);
  EXPECT_FALSE(counting.mean_report_age_s.has_value()) << "no report, no age";
}

// No freshness in what a router reads: whoever was idle at the last report gets all requests until
// the next one.
TEST(Aibrix2569, AHerdDoesNotFollowOneReport) {
  const auto most_in_one_interval = [](bool corrected) {
    RunSpec spec = four_engines(FrontSpec::Choice::kLeastReported);
    spec.front.staleness = std::chrono::seconds(5);
    spec.front.corrected_reports = corrected;
    std::map<std::pair<std::int64_t, int>, int> sent;  // by report interval and engine
    std::map<std::int64_t, int> in_interval;
    const auto records = records_of(spec, steady_requests(600));
    EXPECT_EQ(records.size(), 600u);
    for (const RequestRecord& r : records) {
      const std::int64_t interval = r.arrival.time_since_epoch() / std::chrono::seconds(5);
      ++sent[{interval, r.engine}];
      ++in_interval[interval];
    }
    double worst = 0;
    for (const auto& [key, count] : sent) {
      if (in_interval[key.first] < 60) continue;  // the last one is cut short
      worst = std::max(worst, static_cast<double>(count) / in_interval[key.first]);
    }
    return worst;
  };
  EXPECT_GT(most_in_one_interval(false), 0.95) << "the report's behaviour, reproduced";
  EXPECT_LT(most_in_one_interval(true), 0.60);
}

}  // namespace
}  // namespace tailrace::simulate
