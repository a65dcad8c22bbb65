// What variants can take, and what a model needs.
#include "tailrace/capacity/analyzer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "capacity/support/vectors.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const queueing::IterationModel kQwen{
    .alpha_ms = 10.645377, .beta_ms = 0.041760195, .gamma_ms = 5.770509e-05};

/// One model whose variants all run `kQwen` unless a test says otherwise.
struct Fixture {
  std::vector<Variant> variants;
  std::vector<WorkloadSummary> summaries;
  std::vector<tune::ParameterEstimate> parameters;
  std::optional<Backlog> gateway;
  std::optional<queueing::Workload> workload;
  ModelSettings settings;
  SloTarget slo;

  Fixture() {
    slo.source = SloSource::kExplicit;
    slo.targets = {.ttft_ms = 500, .itl_ms = 50};
  }

  void add(const std::string& name, std::int64_t current, double rate_per_pod, int pods,
           double waiting = 0) {
    Variant v;
    v.name = name;
    v.current = current;
    Aggregator all(settings.assembly);
    for (int i = 0; i < pods; ++i) {
      tune::Observation o;
      o.rate_per_s = rate_per_pod;
      o.input_tokens = 1024;
      o.output_tokens = 256;
      o.ttft_ms = 100;
      o.itl_ms = 20;
      o.waiting = waiting;
      all.add(o);
    }
    variants.push_back(v);
    summaries.push_back(all.summary());
    parameters.emplace_back();
    parameters.back().values = kQwen;
  }

  ModelAnalysis run() const {
    ModelReading reading;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      reading.variants.push_back({&variants[i], summaries[i], parameters[i]});
    }
    reading.gateway = gateway;
    reading.workload = workload;
    return analyze(reading, settings, slo);
  }
};

double capacity_of(const ModelSettings& settings, const SloTarget& slo) {
  queueing::ServiceModel model;
  model.mode = settings.latency_model;
  model.iteration = kQwen;
  return queueing::size(model, queueing::Workload::of(0, 1024, 256), slo.targets)->throughput_per_s;
}

TEST(SpecSection4_3, CapacityIsTheLargestRateAtWhichBothTargetsHold) {
  for (const auto mode :
       {queueing::Mode::kClosedForm, queueing::Mode::kChain, queueing::Mode::kCorrected}) {
    Fixture f;
    f.settings.latency_model = mode;
    f.add("a", 2, 4, 2);
    const auto out = f.run();
    EXPECT_DOUBLE_EQ(out.variants[0].per_replica_per_s, capacity_of(f.settings, f.slo));
    EXPECT_EQ(out.variants[0].evidence, Evidence::kSized);
    EXPECT_FALSE(out.variants[0].failure);
  }
}

TEST(SpecSection4_3, RequiredReplicasRoundUp) {
  EXPECT_EQ(published_supply(10, 3)->replicas, 4);
  EXPECT_EQ(published_supply(9, 3)->replicas, 3);
  EXPECT_EQ(published_supply(0.1, 3)->replicas, 1);
}

TEST(SpecSection4_4, AFailingVariantKeepsItsPlaceWithoutCapacity) {
  Fixture f;
  f.settings.assembly = Assembly::kPublished;
  f.settings.latency_model = queueing::Mode::kChain;
  f.add("works", 2, 4, 2);
  f.add("no metrics", 3, 0, 0);
  f.add("no traffic", 3, 0, 3);
  f.add("no parameters", 3, 4, 3);
  f.parameters[3].values.reset();
  f.add("no model", 3, 4, 3);
  f.variants[4].limits.max_num_seqs = 0;
  for (auto& v : f.variants) v.pending = 1;
  const auto out = f.run();
  EXPECT_FALSE(out.failure);
  ASSERT_EQ(out.variants.size(), 5U);
  EXPECT_GT(out.variants[0].per_replica_per_s, 0);
  for (std::size_t i = 1; i < 5; ++i) {
    const auto& v = out.variants[i];
    EXPECT_EQ(v.per_replica_per_s, 0) << v.name;
    EXPECT_EQ(v.total_per_s, 0) << v.name;
    EXPECT_EQ(v.demand_per_s, 0) << v.name;
    EXPECT_EQ(v.utilization, 0) << v.name;
    EXPECT_EQ(v.current, 3) << v.name;
    EXPECT_EQ(v.pending, 1) << v.name;
    EXPECT_TRUE(v.failure) << v.name;
  }
  EXPECT_THAT(*out.variants[1].failure, HasSubstr("no metrics"));
  EXPECT_THAT(*out.variants[2].failure, HasSubstr("no active traffic"));
  EXPECT_THAT(*out.variants[3].failure, HasSubstr("no parameters learnt yet"));
  EXPECT_THAT(*out.variants[4].failure, HasSubstr("max-batch"));
}

TEST(SpecSection4_4, AModelFailsOnlyIfEveryVariantDoes) {
  for (const auto assembly : {Assembly::kCorrected, Assembly::kPublished}) {
    Fixture f;
    f.settings.assembly = assembly;
    f.add("a", 2, 4, 2);
    f.add("b", 2, 4, 2);
    f.parameters[0].values.reset();
    EXPECT_FALSE(f.run().failure);
    f.parameters[1].values.reset();
    ASSERT_TRUE(f.run().failure);
    EXPECT_THAT(*f.run().failure, HasSubstr("no variant could be analysed"));
  }
}

TEST(Analyzer, PublishedSupplyIsOfTheReplicasThatDemandNeedsSoNothingIsEverRequired) {
  const auto rows = ::tailrace::testing::queueing_vectors("I");
  if (rows.empty()) GTEST_SKIP() << "no reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const auto& row : rows) {
    if (!row.inputs.contains("lambda_star")) continue;
    ++seen;
    const double demand = row.in("total_arrival"), capacity = row.in("lambda_star");
    const auto supply = published_supply(demand, capacity);
    ASSERT_TRUE(supply);
    EXPECT_EQ(supply->replicas, row.out("required_replicas")) << row.id;
    EXPECT_NEAR(supply->supply_per_s, row.out("total_capacity"), 1e-9) << row.id;
    EXPECT_NEAR(supply->utilization, row.out("variant_utilization"), 1e-9) << row.id;
    EXPECT_EQ(std::max(0.0, demand - supply->supply_per_s), row.out("required_capacity"));
    EXPECT_NEAR(supply->supply_per_s - demand, row.out("spare_capacity"), 1e-9) << row.id;
    // Ours, with both thresholds at 1, is what the row says supply of the current would give.
    const double current = row.in("current_replicas") * capacity;
    const auto ours = need_between_thresholds(demand, current, current, 1, 1);
    EXPECT_NEAR(ours.required_per_s, row.out("required_capacity_if_supply_were_current"), 1e-9);
    EXPECT_NEAR(ours.spare_per_s, row.out("spare_if_supply_were_current"), 1e-9) << row.id;
  }
  EXPECT_GE(seen, 3);
}

TEST(Analyzer, PublishedAssemblyReportsThatSupply) {
  Fixture f;
  f.settings.assembly = Assembly::kPublished;
  f.settings.latency_model = queueing::Mode::kChain;
  f.add("a", 1, 30, 1);
  const auto out = f.run();
  const double c = out.variants[0].per_replica_per_s;
  EXPECT_DOUBLE_EQ(out.supply_per_s, std::ceil(30 / c) * c);
  EXPECT_EQ(out.required_per_s, 0) << "though one replica faces three times its capacity";
  f.settings.assembly = Assembly::kCorrected;
  EXPECT_GT(f.run().required_per_s, 20);
}

TEST(Thresholds, ReferenceVectors) {
  const auto rows = ::tailrace::testing::queueing_vectors("J");
  if (rows.empty()) GTEST_SKIP() << "no reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const auto& row : rows) {
    if (!row.inputs.contains("anticipated")) continue;
    ++seen;
    const auto need = need_between_thresholds(row.in("demand"), row.in("supply"),
                                              row.in("anticipated"), row.in("up"), row.in("down"));
    EXPECT_NEAR(need.required_per_s, row.out("required"), 1e-5) << row.id;
    EXPECT_NEAR(need.spare_per_s, row.out("spare"), 1e-5) << row.id;
  }
  EXPECT_GE(seen, 3);
}

TEST(Thresholds, RequiredAndSpareAreNeverBothAboveZero) {
  for (double demand = 0; demand < 30; demand += 0.7) {
    for (double supply = 0; supply < 30; supply += 0.9) {
      for (double pending = 0; pending < 10; pending += 3) {
        const auto need = need_between_thresholds(demand, supply, supply + pending, 0.85, 0.7);
        EXPECT_TRUE(need.required_per_s == 0 || need.spare_per_s == 0);
      }
    }
  }
}

TEST(Thresholds, WhatWasJustAddedIsNotTakenAway) {
  for (double demand = 0.1; demand < 100; demand *= 1.3) {
    const double c = 3;
    const auto need = need_between_thresholds(demand, 0, 0, 0.85, 0.7);
    const double supply = std::ceil(need.required_per_s / c) * c;
    const auto then = need_between_thresholds(demand, supply, supply, 0.85, 0.7);
    EXPECT_EQ(then.required_per_s, 0) << demand;
    EXPECT_LT(then.spare_per_s, c) << demand;
  }
}

TEST(Analyzer, PendingReplicasCountAgainstWhatIsRequired) {
  Fixture f;
  f.add("a", 1, 30, 1);
  const auto before = f.run();
  ASSERT_GT(before.required_per_s, 0);
  f.variants[0].pending = static_cast<std::int64_t>(
      std::ceil(before.required_per_s / before.variants[0].per_replica_per_s));
  EXPECT_EQ(f.run().required_per_s, 0);
}

TEST(Analyzer, BacklogIsDemandOverItsDrainTime) {
  Fixture f;
  f.settings.drain_s = 30;
  f.add("a", 2, 4, 2, 15);
  f.gateway = Backlog{60};
  const auto out = f.run();
  EXPECT_DOUBLE_EQ(out.demand_per_s, 8 + 30 / 30. + 60 / 30.);
  EXPECT_DOUBLE_EQ(out.backlog_per_s, 3);
  EXPECT_DOUBLE_EQ(out.variants[0].demand_per_s, 9);
}

TEST(Analyzer, WhatTheGatewayKeepsFromReplicasIsDemand) {
  Fixture f;
  f.add("a", 2, 4, 2);
  f.gateway = Backlog{.requests = 0, .arrivals_per_s = 20};
  EXPECT_DOUBLE_EQ(f.run().demand_per_s, 20) << "8 of 20 reach them";
  f.gateway->arrivals_per_s = 7.9;
  EXPECT_DOUBLE_EQ(f.run().demand_per_s, 8);
}

TEST(Analyzer, WhatMayGoToAVariantThatIsNotUnderstoodIsNotKeptFromOthers) {
  Fixture f;
  f.add("a", 2, 4, 2);
  f.add("new", 1, 5, 1);
  f.parameters[1].values.reset();
  f.gateway = Backlog{.requests = 0, .arrivals_per_s = 20};
  EXPECT_DOUBLE_EQ(f.run().demand_per_s, 8);
}

TEST(Analyzer, LongWaitingRequestsAreMoreWorkThanTheirNumberSays) {
  Fixture f;
  f.settings.drain_s = 30;
  f.add("a", 2, 4, 2);
  f.workload = queueing::Workload::of(8, 1024, 256);
  f.gateway = Backlog{.requests = 60, .output_tokens = 60 * 512};
  EXPECT_DOUBLE_EQ(f.run().backlog_per_s, 120 / 30.);
  f.gateway->output_tokens = 60 * 256'000.;
  EXPECT_DOUBLE_EQ(f.run().backlog_per_s, 600 / 30.) << "bounded";
}

TEST(Analyzer, ASilentPodBesideOneTooManyIsStillADoubt) {
  Fixture f;
  f.add("a", 2, 0.1, 3);
  f.summaries[0].unknown_pods = 1;
  EXPECT_EQ(f.run().spare_per_s, 0);
}

TEST(Analyzer, ALostScrapeIsNotIdleness) {
  Fixture f;
  f.add("a", 4, 0.1, 4);
  ASSERT_GT(f.run().spare_per_s, 0);
  Fixture part;
  part.add("a", 4, 0.1, 2);
  EXPECT_EQ(part.run().spare_per_s, 0) << "two of four pods report";
  EXPECT_THAT(part.run().notes[0], HasSubstr("2 of 4 replicas"));
  Fixture none;
  none.add("a", 4, 0, 0);
  EXPECT_TRUE(none.run().failure);
  EXPECT_EQ(none.run().variants[0].evidence, Evidence::kUnknown);
}

TEST(Analyzer, AVariantThatIsNotUnderstoodKeepsItsModelFromShrinking) {
  Fixture f;
  f.add("a", 10, 0.1, 10);
  f.add("new", 1, 5, 1);
  f.parameters[1].values.reset();
  const auto out = f.run();
  EXPECT_EQ(out.spare_per_s, 0);
  EXPECT_THAT(out.notes[0], HasSubstr("new is not understood"));
}

TEST(Analyzer, AnIdleVariantIsSizedForTheTrafficOfItsModel) {
  Fixture f;
  f.add("a", 1, 4, 1);
  f.add("idle", 2, 0, 2);
  f.workload = queueing::Workload::of(4, 1024, 256);
  const auto out = f.run();
  EXPECT_EQ(out.variants[1].evidence, Evidence::kSized);
  EXPECT_DOUBLE_EQ(out.variants[1].per_replica_per_s, out.variants[0].per_replica_per_s);
  EXPECT_EQ(out.variants[1].demand_per_s, 0);
  f.settings.assembly = Assembly::kPublished;
  EXPECT_EQ(f.run().variants[1].evidence, Evidence::kIdle);
}

TEST(Analyzer, AnIdleModelOfWhichNothingIsLearntIsIdleRatherThanFailed) {
  Fixture f;
  f.add("idle", 2, 0, 2);
  f.parameters[0].values.reset();
  EXPECT_FALSE(f.run().failure);
  EXPECT_EQ(f.run().variants[0].evidence, Evidence::kIdle);
}

TEST(Analyzer, DemandOfAVariantThatCannotKeepTheSloFallsToTheOthers) {
  Fixture f;
  f.add("fast", 1, 4, 1);
  f.add("slow", 1, 9, 1);
  f.parameters[1].values->alpha_ms = 80;
  const auto out = f.run();
  EXPECT_EQ(out.variants[1].evidence, Evidence::kUnreachable);
  EXPECT_EQ(out.variants[1].demand_per_s, 0);
  EXPECT_DOUBLE_EQ(out.demand_per_s, 13);
  EXPECT_THAT(*out.variants[1].failure, HasSubstr("cannot be kept"));
}

TEST(Analyzer, OverloadIsAResult) {
  Fixture f;
  f.add("a", 1, 1e6, 1);
  const auto out = f.run();
  EXPECT_FALSE(out.failure);
  EXPECT_TRUE(std::isfinite(out.required_per_s));
  EXPECT_NEAR(out.required_per_s, 1e6 / 0.85, 1e6 * 1e-4);
}

TEST(Analyzer, EachRoleHasItsOwnNeed) {
  Fixture f;
  f.add("p", 1, 4, 1);
  f.add("d", 8, 1, 8);
  f.variants[0].role = Role::kPrefill;
  f.variants[1].role = Role::kDecode;
  const auto out = f.run();
  ASSERT_EQ(out.roles.size(), 2U);
  EXPECT_DOUBLE_EQ(out.roles.at(Role::kPrefill).demand_per_s, 4);
  EXPECT_DOUBLE_EQ(out.roles.at(Role::kDecode).demand_per_s, 8);
}

}  // namespace
}  // namespace tailrace::capacity
