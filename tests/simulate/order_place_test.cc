#include "simulate/order_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tailrace/simulate/experiment.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {
namespace {

using testing::HasSubstr;
using testing::Not;

Experiment with_arms(const std::string& arms) {
  auto experiment =
      parse_experiment("workload: {rate: 10, requests: 100}\narms:\n" + arms, "x.yaml");
  EXPECT_TRUE(experiment.has_value()) << (experiment ? "" : experiment.error().message);
  return experiment ? *experiment : Experiment{};
}

OrderPlace place_of(const std::string& settings) {
  const Experiment e = with_arms("  a: {policy.name: fcfs}\n  b: {" + settings + "}\n");
  return e.cells.empty() ? OrderPlace{} : order_place(e.cells.back().spec);
}

TEST(OrderPlace, OnlyAnAgeAwarePolicyInsideAnEngineDisplacesWhatRuns) {
  EXPECT_TRUE(place_of("policy.name: gittins").displaces);
  EXPECT_TRUE(place_of("policy.name: las").displaces);
  EXPECT_TRUE(place_of("policy.name: ltr, policy.ltr_preemptive: true").displaces);
  for (const char* stays : {"policy.name: tie", "policy.name: ltr", "policy.name: priority",
                            "policy.name: gittins, preemption.enabled: false",
                            "policy.name: gittins, preemption.max_per_job: 0"}) {
    EXPECT_FALSE(place_of(stays).displaces) << stays;
    EXPECT_FALSE(place_of(stays).front) << stays;
  }
  const OrderPlace front = place_of("policy.name: gittins, policy.place: front");
  EXPECT_TRUE(front.front);
  EXPECT_FALSE(front.displaces);
}

TEST(OrderPlace, TheTextNamesWhoOrdersWhere) {
  const std::string text =
      order_text(with_arms("  a: {policy.name: tie, policy.place: front}\n"
                           "  b: {policy.name: fcfs, policy.place: front}\n"
                           "  c: {policy.name: gittins}\n"));
  EXPECT_THAT(text, HasSubstr("in front of the engines, as in the gateway: tie, fcfs\n"));
  EXPECT_THAT(text, HasSubstr("which the gateway cannot do: gittins\n"));
  EXPECT_THAT(text, Not(HasSubstr("what runs stays")));
}

/// Mean over requests and two seeds of the time in the system per token, at 1.5 times what the
/// engine serves.
double per_token_s(const Experiment& first, const std::string& arm) {
  double sum = 0;
  std::size_t requests = 0;
  for (const Cell& cell : first.cells) {
    if (first.dimensions[0].labels[cell.labels[0]] != arm) continue;
    for (const std::uint64_t seed : {1, 2}) {
      RunSpec spec = cell.spec;
      spec.seed = seed;
      spec.workload.arrivals.rate = 45;
      const auto totals = run(spec, [&](const RequestRecord& r) {
        sum += to_seconds(*r.finished - r.arrival) / static_cast<double>(r.output.count());
        ++requests;
      });
      EXPECT_TRUE(totals.has_value());
    }
  }
  EXPECT_GT(requests, 10'000u) << arm;
  return sum / static_cast<double>(requests);
}

TEST(OrderPlace, InFrontGittinsIsBetterThanTieInLatencyPerToken) {
  const auto first = load_experiment(std::string(TAILRACE_SOURCE_DIR) + "/experiments/first.yaml");
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const double tie = per_token_s(*first, "tie");
  EXPECT_LT(per_token_s(*first, "gittins"), 0.9 * tie);
  EXPECT_GT(per_token_s(*first, "arrival order"), 3 * tie);
}

}  // namespace
}  // namespace tailrace::simulate
