#include "tailrace/simulate/results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "tailrace/report/replicates.h"
#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {
namespace {

MonoTime at(double seconds) {
  return MonoTime(from_seconds(seconds));
}

RequestRecord record(std::uint64_t id, double arrival, double admitted, double first,
                     double finished, std::int64_t output) {
  RequestRecord r;
  r.id = id;
  r.end = End::kCompleted;
  r.arrival = at(arrival);
  r.dispatched = at(arrival);
  r.admitted = at(admitted);
  r.first_token = at(first);
  r.finished = at(finished);
  r.prompt = Tokens(10);
  r.output = Tokens(output);
  r.cap = Tokens(100);
  return r;
}

WorkloadFacts facts(std::uint64_t requests, double last_arrival) {
  WorkloadFacts f;
  f.requests = requests;
  f.last_arrival = at(last_arrival);
  f.rate = 2;
  f.class_ends = {{{2, 1}, {4, 1}, {6, 1}, {8, 1}}};
  return f;
}

TEST(RunRecorder, AddsUpWhatRequestsMet) {
  Slo slo;
  slo.ttft = std::chrono::seconds(2);
  RunRecorder recorder(RunSpec{}, facts(4, 1.5), 0, slo);
  recorder.add(record(0, 0.0, 0.5, 1.0, 5.0, 5));     // e2e 5, per token 1, itl 1
  recorder.add(record(1, 0.5, 3.5, 3.75, 4.0, 2));    // wait 3 of 0.5 served: not over 10 times
  recorder.add(record(2, 1.0, 12.0, 12.5, 13.0, 1));  // waits 11, runs 1
  RequestRecord refused;
  refused.id = 3;
  refused.end = End::kRefused;
  refused.arrival = at(1.5);
  recorder.add(refused);
  RunTotals totals;
  totals.offered = 4;
  totals.completed = 3;
  totals.refused = 1;
  totals.end = at(16);
  totals.output_tokens = 8;
  // Prompts of 10 and all tokens but each last one, and 7 again.
  totals.computed_tokens = 30 + 4 + 1 + 0 + 7;
  totals.preemptions = 2;
  totals.waiting_at_last = 2;
  totals.busy_s = 4;
  const RunResult r = recorder.result(totals);
  EXPECT_EQ(r.measured, 3u);
  EXPECT_DOUBLE_EQ(r.e2e->mean, (5.0 + 3.5 + 12.0) / 3);
  EXPECT_DOUBLE_EQ(r.ttft->p50, 3.25);
  EXPECT_DOUBLE_EQ(r.ttft->p90, 3.25 + 0.8 * (11.5 - 3.25));
  EXPECT_DOUBLE_EQ(r.per_token->mean, (1.0 + 1.75 + 12.0) / 3);
  EXPECT_EQ(r.itl->count, 2u);
  EXPECT_DOUBLE_EQ(r.itl->mean, (1.0 + 0.25) / 2);
  EXPECT_DOUBLE_EQ(*r.goodput, 0.25);
  EXPECT_DOUBLE_EQ(*r.starved, 1.0 / 3);
  EXPECT_DOUBLE_EQ(r.wait->max, 11);
  EXPECT_DOUBLE_EQ(*r.waiting_at_last, 0.5);
  EXPECT_DOUBLE_EQ(*r.recomputed_tokens, 7);
  EXPECT_DOUBLE_EQ(*r.output_tokens_per_s, 0.5);
  EXPECT_DOUBLE_EQ(*r.utilisation, 0.25);
  EXPECT_DOUBLE_EQ(*r.preemptions_per_request, 0.5);
  EXPECT_EQ(r.classes[0].count, 2u);
  EXPECT_EQ(r.classes[2].count, 1u);
  EXPECT_DOUBLE_EQ(r.classes[0].wait_s, 7);
}

TEST(RunRecorder, LeavesTheWarmUpOut) {
  RunRecorder recorder(RunSpec{}, facts(10, 9), 0.2, Slo{});
  for (std::uint64_t i = 0; i < 10; ++i) {
    const double t = static_cast<double>(i);
    recorder.add(record(i, t, t, t + 1, t + (i < 2 ? 100 : 2), 3));
  }
  RunTotals totals;
  totals.offered = totals.completed = 10;
  totals.end = at(101);
  const RunResult r = recorder.result(totals);
  EXPECT_EQ(r.measured, 8u);
  EXPECT_DOUBLE_EQ(r.e2e->max, 2);
  EXPECT_FALSE(r.goodput.has_value());
}

TEST(RunRecorder, CallsARunOverloadedWhenMoreWaitThanFluctuationExplains) {
  const auto verdict = [](std::uint64_t n, std::uint64_t waiting) {
    RunTotals totals;
    totals.offered = totals.completed = n;
    totals.waiting_at_last = waiting;
    totals.end = at(20);
    return RunRecorder(RunSpec{}, facts(n, 10), 0, Slo{}).result(totals).overloaded;
  };
  EXPECT_FALSE(verdict(900, 90));  // 10 %, and 3/sqrt(900) is 10 %
  EXPECT_TRUE(verdict(900, 91));
  EXPECT_FALSE(verdict(100'000, 2000));
  EXPECT_TRUE(verdict(100'000, 2001));
}

TEST(RunRecorder, SaysHowWellMediansOrderLengths) {
  RunRecorder recorder(RunSpec{}, facts(4, 1), 0, Slo{});
  const double said[] = {1, 2, 4, 3};
  for (std::uint64_t i = 0; i < 4; ++i) {
    RequestRecord r = record(i, 0, 0, 1, 2, static_cast<std::int64_t>(10 + i));
    r.predicted_median = said[i];
    recorder.add(r);
  }
  EXPECT_DOUBLE_EQ(*recorder.result(RunTotals{}).tau, 4.0 / 6);  // 5 pairs rightly, one wrongly
}

TEST(RunRecorder, SaysHowManyLengthsLieWithinTheirLawsIntervals) {
  RunRecorder recorder(RunSpec{}, facts(4, 1), 0, Slo{});
  const PredictedPlace places[] = {
      {0.48, 0.52},  // in the middle of all
      {0.10, 0.12},  // in the wider interval alone
      {0.96, 0.98},  // beyond both
      {0.60, 1.00},  // cut at its cap: 15 of these 40 points are in the narrow one, 35 in the wide
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    RequestRecord r = record(i, 0, 0, 1, 2, i == 3 ? 100 : 10);
    r.predicted_place = places[i];
    recorder.add(r);
  }
  const RunResult r = recorder.result(RunTotals{});
  EXPECT_NEAR(*r.within_50, (1 + 0 + 0 + 0.375) / 4, 1e-12);
  EXPECT_NEAR(*r.within_90, (1 + 1 + 0 + 0.875) / 4, 1e-12);
}

TEST(RunRecorder, KnowsNoCalibrationWithoutLawsOrWhereEveryAnswerIsCut) {
  RunRecorder lawless(RunSpec{}, facts(1, 1), 0, Slo{});
  lawless.add(record(0, 0, 0, 1, 2, 10));
  EXPECT_FALSE(lawless.result(RunTotals{}).within_50.has_value());
  RunRecorder cut(RunSpec{}, facts(1, 1), 0, Slo{});
  RequestRecord at_cap = record(0, 0, 0, 1, 2, 100);
  at_cap.predicted_place = PredictedPlace{0.4, 1};
  cut.add(at_cap);
  EXPECT_FALSE(cut.result(RunTotals{}).within_90.has_value());
}

/// Coverage of the intervals of 50 and 90 % over a run.
std::pair<double, double> coverage(const PredictorSpec& predictor, std::int64_t cap) {
  RunSpec spec;
  spec.workload.arrivals.rate = 20;
  spec.workload.arrivals.count = 8000;
  spec.workload.lengths.cap = cap;
  spec.predictor = predictor;
  RunRecorder recorder(spec, facts(8000, 400), 0, Slo{});
  const auto totals = run(spec, [&](const RequestRecord& r) { recorder.add(r); });
  EXPECT_TRUE(totals.has_value());
  const RunResult result = recorder.result(*totals);
  return {*result.within_50, *result.within_90};
}

TEST(Calibration, OfTheLawThatLengthsComeFromIsExactWhateverIsCut) {
  for (const std::int64_t cap : {40, 150, 2048}) {
    const auto [half, most] = coverage({.kind = PredictorSpec::Kind::kOracleLaw}, cap);
    EXPECT_NEAR(half, 0.5, 0.02) << "cap " << cap;  // 3.5 standard errors
    EXPECT_NEAR(most, 0.9, 0.012) << "cap " << cap;
  }
}

TEST(Calibration, TellsLawsThatHideTheirErrorsFromThoseThatDoNot) {
  PredictorSpec noisy{.kind = PredictorSpec::Kind::kNoisyLaw, .r2_mu = 0.5, .r2_sigma = 0.5};
  const auto plain = coverage(noisy, 2048);
  noisy.calibrated = true;
  const auto widened = coverage(noisy, 2048);
  EXPECT_LT(plain.second, 0.85);
  EXPECT_NEAR(widened.first, 0.5, 0.04);
  EXPECT_NEAR(widened.second, 0.9, 0.03);
}

TEST(Calibration, OfALawThatRuledTheLengthOutIsZero) {
  const PredictedPlace impossible{1, 1};
  EXPECT_DOUBLE_EQ(impossible.within(0.05, 0.95), 0);
}

TEST(SpreadCounter, IsExactWhileSmallAndWithinOnePercentBeyond) {
  SpreadCounter counter;
  EXPECT_FALSE(counter.spread().has_value());
  for (int i = 1; i <= 1000; ++i) counter.add(i);
  EXPECT_DOUBLE_EQ(counter.spread()->p99, 990.01);
  const int n = static_cast<int>(SpreadCounter::kExactMax) + 1;
  for (int i = 1001; i <= n; ++i) counter.add(i);
  const Spread spread = *counter.spread();
  EXPECT_NEAR(spread.p999 / (0.999 * n), 1, 0.011);
  EXPECT_DOUBLE_EQ(spread.max, n);
  EXPECT_DOUBLE_EQ(spread.mean, (n + 1) / 2.0);
}

TEST(HeatCounts, RowsAreHalfOctavesOfTheLength) {
  std::size_t row = 0;
  for (std::int64_t length = 1; length < 5000; ++length) {
    row = HeatCounts::row_of(length);
    ASSERT_LE(HeatCounts::least_of(row), length);
    ASSERT_GT(HeatCounts::least_of(row + 1), length);
  }
  EXPECT_EQ(HeatCounts::least_of(3), 4);
  EXPECT_EQ(HeatCounts::least_of(4), 6);
}

TEST(HeatCounts, ColumnsWidenUntilTheRunFitsAndLoseNobody) {
  HeatCounts a;
  HeatCounts b;
  for (int i = 0; i < 1000; ++i) a.add(1 + i, i);
  b.add(5, 0.01);
  b.merge(a);
  a.merge(b);
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < HeatCounts::kRows; ++r) {
    for (std::size_t c = 0; c < HeatCounts::kColumns; ++c) sum += a.at(r, c);
  }
  EXPECT_EQ(sum, 2001u);
  EXPECT_DOUBLE_EQ(a.column_seconds(), b.column_seconds());
  EXPECT_GE(a.column_seconds() * HeatCounts::kColumns, 999);
}

TEST(Alone, IsWhatAnIdleEngineTakes) {
  RunSpec spec;
  spec.workload.arrivals.rate = 0.001;
  spec.workload.arrivals.count = 1;
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 300;
  spec.workload.prompts.mean = 20'000;  // three chunks
  double e2e = 0;
  const auto totals =
      run(spec, [&](const RequestRecord& r) { e2e = to_seconds(*r.finished - r.arrival); });
  ASSERT_TRUE(totals.has_value()) << totals.error().message;
  EXPECT_NEAR(alone_s(spec.fleet.engine, Tokens(20'000), Tokens(300)) / e2e, 1, 1e-3);
}

TEST(Facts, DescribeTheWorkloadThatTheRunMeets) {
  RunSpec spec;
  spec.workload.arrivals.rate = 50;
  spec.workload.arrivals.count = 2000;
  spec.workload.lengths.cap = 500;
  const auto facts = describe_workload(spec);
  ASSERT_TRUE(facts.has_value()) << facts.error().message;
  double sum = 0;
  std::uint64_t capped = 0;
  const auto totals = run(spec, [&](const RequestRecord& r) {
    sum += static_cast<double>(r.output.count());
    capped += r.output.count() == 500;
  });
  ASSERT_TRUE(totals.has_value());
  EXPECT_EQ(facts->requests, totals->offered);
  EXPECT_DOUBLE_EQ(facts->mean_length, sum / 2000);
  EXPECT_DOUBLE_EQ(facts->at_cap, static_cast<double>(capped) / 2000);
  EXPECT_EQ(facts->last_arrival, totals->last_arrival);
  EXPECT_NEAR(*facts->rate, 50, 5);
}

TEST(Facts, ClassesKeepTheirSizesWhereManyLengthsAreTheSame) {
  const auto sizes = [](const RunSpec& spec) {
    const auto facts = describe_workload(spec);
    EXPECT_TRUE(facts.has_value());
    std::array<double, 5> shares{};
    const auto totals = run(spec, [&](const RequestRecord& r) {
      shares[facts->class_of(r.output.count(), r.id)] += 1 / 2000.0;
    });
    EXPECT_TRUE(totals.has_value());
    return shares;
  };
  RunSpec capped;
  capped.workload.arrivals.rate = 50;
  capped.workload.arrivals.count = 2000;
  capped.workload.lengths.cap = 300;
  RunSpec fixed = capped;
  fixed.workload.lengths.kind = LengthSpec::Kind::kFixed;
  for (const RunSpec& spec : {capped, fixed}) {
    const auto shares = sizes(spec);
    EXPECT_NEAR(shares[0], 0.25, 0.011);
    EXPECT_NEAR(shares[1], 0.25, 0.011);
    EXPECT_NEAR(shares[2], 0.25, 0.011);
    EXPECT_NEAR(shares[3], 0.2, 0.011);
    EXPECT_NEAR(shares[4], 0.05, 0.011);
  }
}

TEST(RunRecorder, KnowsNothingOfARunWithoutRequests) {
  CellResult cell;
  cell.runs.push_back(RunRecorder(RunSpec{}, WorkloadFacts{}, 0, Slo{}).result(RunTotals{}));
  for (const Metric& metric : metrics()) EXPECT_FALSE(metric.of(cell.runs[0])) << metric.name;
  EXPECT_EQ(cell.verdict(), "unknown");
}

TEST(RunRecorder, KnowsNoTauWhereAllPredictionsAreTheSame) {
  RunRecorder recorder(RunSpec{}, facts(3, 1), 0, Slo{});
  for (const std::int64_t length : {3, 5, 9}) {
    RequestRecord r = record(static_cast<std::uint64_t>(length), 0, 0, 1, 2, length);
    r.predicted_median = 7;
    recorder.add(r);
  }
  EXPECT_FALSE(recorder.result(RunTotals{}).tau.has_value());
}

TEST(Cell, IsNotStableWhereRequestsWereRefused) {
  CellResult cell;
  cell.runs.resize(2);
  for (RunResult& run : cell.runs) run.totals.offered = run.totals.completed = 10;
  EXPECT_EQ(cell.verdict(), "stable");
  cell.runs[1].totals.refused = 1;
  EXPECT_EQ(cell.verdict(), "refusing");
  cell.runs[0].overloaded = cell.runs[1].overloaded = true;
  EXPECT_EQ(cell.verdict(), "overloaded, refusing");
}

TEST(Cell, CutsIntervalsAtWhatTheMetricCanBe) {
  CellResult cell;
  cell.runs.resize(2);
  cell.runs[0].goodput = 0.5;
  cell.runs[1].goodput = 0.9;
  cell.runs[0].seconds = 1;
  cell.runs[1].seconds = 5;
  const auto mean = [&](std::string_view name) {
    const auto all = metrics();
    return cell.mean(*std::find_if(all.begin(), all.end(),
                                   [&](const Metric& metric) { return metric.name == name; }));
  };
  EXPECT_DOUBLE_EQ(mean("goodput")->low, 0);
  EXPECT_DOUBLE_EQ(mean("goodput")->estimate, 0.7);
  EXPECT_DOUBLE_EQ(mean("goodput")->high, 1);
  EXPECT_DOUBLE_EQ(mean("seconds")->low, 0);
  EXPECT_GT(mean("seconds")->high, 5);
}

TEST(Load, OfConversationsThatTheirContextEndsIsWhatWasAskedFor) {
  for (const std::int64_t context : {2600, 1'000'000}) {
    const auto experiment = parse_experiment(
        "workload: {load: 0.5, maximum_rate: 4, requests: 20000, sessions: {turns: 8, think: 1s, "
        "context: " +
            std::to_string(context) + "}}\n",
        "x.yaml");
    ASSERT_TRUE(experiment.has_value()) << experiment.error().message;
    const auto result = run_experiment(*experiment, {});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    // 20,000 requests of some 8 a conversation: 2.8 % at eight turns.
    EXPECT_NEAR(*result->cells[0].runs[0].load, 0.5, 0.05) << context;
  }
}

TEST(Capacity, OfAFullBatchIsSlotsOverTheTimeOfAnAnswer) {
  RunSpec spec;
  spec.fleet.engine.max_num_seqs = 8;
  spec.fleet.engine.cost = {};
  spec.fleet.engine.cost.alpha_ms = 10;
  spec.fleet.engine.cost.beta_ms = spec.fleet.engine.cost.gamma_ms = 0;
  spec.fleet.engines = 2;
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 100;
  const auto capacity = measure_capacity(spec);
  ASSERT_TRUE(capacity.has_value()) << capacity.error().message;
  // 16 slots, each 100 iterations of 10 ms.
  EXPECT_NEAR(capacity->per_second, 16, 0.2);
}

TEST(Capacity, OfALargeFleetThatHoldsNobodyIsRefusedAfterAFew) {
  RunSpec spec;
  spec.fleet.engine.max_model_len = 2;
  spec.fleet.engines = 4096;
  const auto capacity = measure_capacity(spec);
  ASSERT_FALSE(capacity.has_value());
  EXPECT_NE(capacity.error().message.find("0 of 2000 requests completed and 2000 were refused"),
            std::string::npos)
      << capacity.error().message;
}

TEST(Replicates, IntervalsAreStudents) {
  const std::vector<double> values = {1, 2, 3};
  const auto mean = report::mean_of_replicates(values);
  EXPECT_DOUBLE_EQ(mean->estimate, 2);
  EXPECT_NEAR(mean->high - 2, 4.302652729749464 / std::sqrt(3.0), 1e-12);
  const std::vector<double> doubled = {2, 4, 6};
  const auto ratio = report::ratio_of_replicates(doubled, values);
  EXPECT_NEAR(ratio->estimate, 2, 1e-12);
  EXPECT_NEAR(ratio->high, 2, 1e-9);  // paired: seeds cancel out
  EXPECT_TRUE(std::isnan(report::mean_of_replicates(std::vector<double>{4})->low));
  EXPECT_FALSE(report::ratio_of_replicates(values, std::vector<double>{1, 0, 1}).has_value());
}

}  // namespace
}  // namespace tailrace::simulate
