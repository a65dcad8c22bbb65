#include "tailrace/simulate/elastic_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tailrace/engine/presets.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::simulate {
namespace {

using ::testing::HasSubstr;

ElasticVariant of_preset(std::string name, std::string_view preset, int initial, int slots) {
  ElasticVariant v;
  v.name = std::move(name);
  v.engine = engine::find_preset(preset)->config;
  v.initial = initial;
  v.slots = slots;
  return v;
}

ElasticSpec spec_of(double rate, double duration_s) {
  ElasticSpec spec;
  spec.variants = {of_preset("fast", "h100-8b", 1, 100), of_preset("slow", "a100-8b", 1, 50)};
  spec.workload.arrivals.rate = rate;
  spec.workload.prompts.mean = 300;
  spec.dispatch.policy = "fcfs";
  spec.duration_s = duration_s;
  spec.cycle_s = 15;
  return spec;
}

struct Outcome {
  ElasticTotals totals;
  std::vector<RequestRecord> records;
  std::vector<FleetReport> reports;
};

Outcome run(const ElasticSpec& spec, const std::function<std::vector<int>(const FleetReport&)>& f) {
  Outcome out;
  auto done = run_elastic(
      spec,
      [&](const FleetReport& report) {
        out.reports.push_back(report);
        return f(report);
      },
      [&](const RequestRecord& record) { out.records.push_back(record); });
  EXPECT_TRUE(done) << done.error().message;
  if (done) out.totals = *done;
  return out;
}

std::vector<int> hold(const FleetReport& report) {
  std::vector<int> out;
  for (const VariantReport& v : report.variants) out.push_back(v.ready + v.starting);
  return out;
}

std::string bytes_of(const Outcome& outcome) {
  std::ostringstream out;
  out.precision(17);
  for (const RequestRecord& r : outcome.records) {
    out << r.id << ' ' << r.engine << ' ' << r.arrival.time_since_epoch().count() << ' '
        << r.finished.value_or(MonoTime{}).time_since_epoch().count() << '\n';
  }
  for (const FleetReport& report : outcome.reports) {
    for (const EngineReport& e : report.engines) {
      out << e.name << ' ' << e.completed << ' ' << e.ttft_s << ' ' << e.gap_s << ' ' << e.running_s
          << '\n';
    }
  }
  return out.str();
}

std::vector<int> come_and_go(const FleetReport& report) {
  const auto k = static_cast<int>(to_seconds(report.now) / 60);
  return {1 + k % 3, k % 2};
}

TEST(ElasticRun, LosesNoRequestWhileEnginesComeAndGo) {
  const auto out = run(spec_of(20, 600), come_and_go);
  EXPECT_GT(out.totals.offered, 11'000U);
  EXPECT_EQ(out.totals.completed, out.totals.offered);
  EXPECT_EQ(out.records.size(), out.totals.offered);
  for (const RequestRecord& r : out.records) {
    ASSERT_LE(r.arrival, *r.dispatched);
    ASSERT_LE(*r.dispatched, *r.admitted);
    ASSERT_LT(*r.admitted, *r.first_token);
    ASSERT_LE(*r.first_token, *r.finished);
  }
}

TEST(ElasticRun, GivesTheSameBytesForTheSameSeed) {
  auto spec = spec_of(20, 300);
  const std::string first = bytes_of(run(spec, come_and_go));
  EXPECT_EQ(first, bytes_of(run(spec, come_and_go)));
  spec.seed = 2;
  EXPECT_NE(first, bytes_of(run(spec, come_and_go)));
}

TEST(ElasticRun, CountsWhatEnginesReport) {
  const auto out = run(spec_of(10, 300), hold);
  const FleetReport& last = out.reports.back();
  ASSERT_EQ(last.engines.size(), 2U);
  std::uint64_t completed = 0, received = 0, running = 0;
  double output = 0, squares = 0, ttft_s = 0;
  for (const EngineReport& e : last.engines) {
    completed += e.completed;
    received += e.received;
    running += e.running + e.waiting;
    output += e.output_tokens;
    squares += e.output_squares;
    EXPECT_NEAR(e.running_s / to_seconds(last.now), static_cast<double>(e.running),
                3 * std::sqrt(e.running_s / to_seconds(last.now)) + 3);
  }
  EXPECT_EQ(received, last.arrived);
  EXPECT_EQ(completed + running, received);
  double records_output = 0, records_squares = 0;
  std::uint64_t ended = 0, first_tokens = 0;
  for (const RequestRecord& r : out.records) {
    if (r.first_token <= last.now) {
      ttft_s += to_seconds(*r.first_token - *r.dispatched);
      ++first_tokens;
    }
    if (r.finished > last.now) continue;
    const auto tokens = static_cast<double>(r.output.count());
    records_output += tokens, records_squares += tokens * tokens, ++ended;
  }
  EXPECT_EQ(ended, completed);
  EXPECT_DOUBLE_EQ(records_output, output);
  EXPECT_DOUBLE_EQ(records_squares, squares);
  EXPECT_EQ(last.engines[0].first_tokens + last.engines[1].first_tokens, first_tokens);
  EXPECT_NEAR(last.engines[0].ttft_s + last.engines[1].ttft_s, ttft_s, 1e-6);
}

// The one engine is the one of run_replica(): the same mean time between tokens.
TEST(ElasticRun, AnEngineAloneHasTheLatencyOfOneReplica) {
  auto spec = spec_of(12, 2'000);
  spec.variants = {of_preset("fast", "h100-8b", 1, 0)};
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 200;
  const auto out = run(spec, hold);
  const EngineReport& e = out.reports.back().engines[0];
  ReplicaSpec replica;
  replica.engine = spec.variants[0].engine;
  replica.lengths = {{300}, {200}};
  replica.rate_per_s = 12;
  replica.requests_max = 24'000;
  const auto alone = run_replica(replica);
  ASSERT_TRUE(alone);
  EXPECT_NEAR(e.gap_s / static_cast<double>(e.gaps) * 1e3, alone->itl_ms, 0.01 * alone->itl_ms);
  EXPECT_NEAR(e.ttft_s / static_cast<double>(e.first_tokens) * 1e3, alone->ttft_ms,
              0.03 * alone->ttft_ms);
}

TEST(ElasticRun, AnAddedEngineTakesItsStartUpTimeToCome) {
  auto spec = spec_of(5, 120);
  spec.variants[0].startup = std::chrono::seconds(40);
  const auto out = run(spec, [](const FleetReport&) { return std::vector<int>{2, 1}; });
  ASSERT_GE(out.reports.size(), 4U);
  EXPECT_EQ(out.reports[0].variants[0].starting, 0);  // at 15 s
  EXPECT_EQ(out.reports[1].variants[0].starting, 1);
  EXPECT_EQ(out.reports[2].variants[0].starting, 1);  // at 45 s
  EXPECT_EQ(out.reports[3].variants[0].ready, 2);     // since 55 s
  EXPECT_EQ(out.reports[3].variants[0].grew, MonoTime{std::chrono::seconds(15)});
  EXPECT_NEAR(out.totals.engine_s[0], 120 + 105, 1e-9);
  EXPECT_NEAR(out.totals.engine_s[1], 120, 1e-9);
}

TEST(ElasticRun, ARemovedEngineEndsItsRequestsAndCostsUntilThen) {
  auto spec = spec_of(10, 120);
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 1'500;
  const auto out = run(spec, [](const FleetReport&) { return std::vector<int>{1, 0}; });
  const FleetReport& second = out.reports[1];
  EXPECT_EQ(second.variants[1].ready, 0);
  EXPECT_EQ(second.variants[1].draining, 1);
  EXPECT_EQ(out.totals.completed, out.totals.offered);
  MonoTime last_of_slow;
  for (const RequestRecord& r : out.records) {
    if (r.engine != 1) continue;
    ASSERT_LE(*r.dispatched, MonoTime{std::chrono::seconds(15)});
    last_of_slow = std::max(last_of_slow, *r.finished);
  }
  EXPECT_GT(to_seconds(last_of_slow), 15.0);
  EXPECT_DOUBLE_EQ(out.totals.engine_s[1], to_seconds(last_of_slow));
}

TEST(ElasticRun, RequestsWaitWhereThereIsNoEngine) {
  auto spec = spec_of(2, 120);
  spec.variants = {of_preset("fast", "h100-8b", 0, 0)};
  const auto out = run(spec, [](const FleetReport& report) {
    return std::vector<int>{report.waiting > 0 ? 1 : report.variants[0].ready};
  });
  EXPECT_EQ(out.totals.completed, out.totals.offered);
  EXPECT_GT(out.reports[0].waiting, 10U);
  EXPECT_EQ(*out.records[0].dispatched, MonoTime{std::chrono::seconds(45)});
}

TEST(ElasticRun, WithoutAnEngineToTheEndRequestsAreUnfinished) {
  auto spec = spec_of(2, 60);
  spec.variants = {of_preset("fast", "h100-8b", 0, 0)};
  spec.patience_s = 60;
  const auto out = run(spec, hold);
  EXPECT_EQ(out.totals.unfinished, out.totals.offered);
  EXPECT_EQ(out.totals.end, MonoTime{std::chrono::seconds(120)});
}

TEST(ElasticRun, ClosedClientsHaveOneRequestEach) {
  auto spec = spec_of(1, 300);
  spec.closed = ClosedLoop{.clients = 40, .think_s = 2};
  const auto out = run(spec, hold);
  for (const FleetReport& report : out.reports) {
    std::size_t inside = report.waiting;
    for (const EngineReport& e : report.engines) inside += e.running + e.waiting;
    EXPECT_LE(inside, 40U);
    EXPECT_GT(inside, 0U);
  }
  // Little's law: each client takes its thinking and its answer's time in turn.
  double in_system_s = 0;
  for (const RequestRecord& r : out.records) in_system_s += to_seconds(*r.finished - r.arrival);
  const auto n = static_cast<double>(out.totals.offered);
  EXPECT_NEAR(n / 300 * (in_system_s / n + 2), 40, 2);
}

TEST(ElasticRun, ARateProfileIsFollowed) {
  auto spec = spec_of(1, 600);
  spec.workload.arrivals.kind = ArrivalSpec::Kind::kProfile;
  // Up from 0 on a slope, a plateau, a step down, nothing at all, and a late step up.
  spec.workload.arrivals.profile = {{0, 0},    {200, 40}, {300, 40}, {300, 10},
                                    {400, 10}, {400, 0},  {500, 0},  {500, 20}};
  const auto out = run(spec, hold);
  std::vector<double> come(6);
  double moment = 0;
  for (const RequestRecord& r : out.records) {
    const double at_s = to_seconds(r.arrival);
    ++come[static_cast<std::size_t>(at_s / 100)];
    if (at_s < 200) moment += at_s;
  }
  const std::vector<double> expected{1'000, 3'000, 4'000, 1'000, 0, 2'000};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(come[i], expected[i], 4 * std::sqrt(expected[i]) + 1e-9) << i;
  }
  EXPECT_NEAR(moment / (come[0] + come[1]), 400.0 / 3, 3);  // of a rate that rises on a line
}

TEST(ElasticRun, AProfileOfRatesIsChecked) {
  auto spec = spec_of(1, 60);
  spec.workload.arrivals.kind = ArrivalSpec::Kind::kProfile;
  const auto message = [&] {
    const auto done = run_elastic(spec, hold, [](const RequestRecord&) {});
    return done ? std::string() : done.error().message;
  };
  EXPECT_THAT(message(), HasSubstr("profile is missing"));
  spec.workload.arrivals.profile = {{0, 1}, {10, 2}, {5, 1}};
  EXPECT_THAT(message(), HasSubstr("profile[2].at_s is 5"));
  spec.workload.arrivals.profile = {{0, -1}};
  EXPECT_THAT(message(), HasSubstr("profile[0].rate is -1"));
}

TEST(ElasticRun, WhatCannotBeIsRefused) {
  const auto message = [](const ElasticSpec& spec) {
    const auto done = run_elastic(spec, hold, [](const RequestRecord&) {});
    return done ? std::string() : done.error().message;
  };
  auto spec = spec_of(1, 60);
  spec.variants[1].name = "fast";
  EXPECT_THAT(message(spec), HasSubstr("variants[1].name is fast; it must be a name of its own"));
  spec = spec_of(1, 60);
  spec.cycle_s = 0;
  EXPECT_THAT(message(spec), HasSubstr("elastic.cycle_s is 0"));
  spec = spec_of(1, 60);
  spec.closed = ClosedLoop{.clients = 0, .think_s = 1};
  EXPECT_THAT(message(spec), HasSubstr("closed.clients is 0"));
  spec = spec_of(1, 60);
  spec.variants.clear();
  EXPECT_THAT(message(spec), HasSubstr("elastic.variants is missing"));
}

}  // namespace
}  // namespace tailrace::simulate
