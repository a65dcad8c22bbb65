// Does the model keep what the specification says of it? Each test is named after a section.
#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {
namespace {

ServiceModel closed_form() {
  ServiceModel model;
  model.mode = Mode::kClosedForm;
  model.iteration = {.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 0.0005};
  return model;
}

Latency at(const ServiceModel& model, const Workload& workload) {
  return latency(model, workload).value();
}

TEST(SpecSection3_2, IterationsOfKAlphaLeaveTheReplicaOneKthIdle) {
  for (const auto& [k, rho] : {std::pair(2.0, 0.5), {3.0, 2.0 / 3}, {5.0, 0.8}}) {
    const Workload work = Workload::of(0, 2048, 1024);
    const auto slo = infer_slo(closed_form().iteration, work, k);
    const Sizing found =
        size(closed_form(), work, {.ttft_ms = slo.ttft_ms, .itl_ms = slo.itl_ms}).value();
    EXPECT_NEAR(found.achieved.rho, rho, 1e-12);
    EXPECT_NEAR(*found.achieved.iteration_ms, k * 8, 1e-9);
    // Both targets are reached at the same rate.
    EXPECT_NEAR(*found.ttft_rate_per_s, *found.itl_rate_per_s, 1e-12);
  }
}

TEST(SpecSection3_2, TargetsAreKAlphaAndTheWorkOfTheRequestItself) {
  const auto slo =
      infer_slo({.alpha_ms = 8, .beta_ms = 0.5, .gamma_ms = 0.25}, Workload::of(0, 100, 41), 3);
  EXPECT_DOUBLE_EQ(slo.ttft_ms, 3 * 8 + 0.75 * 100);
  EXPECT_DOUBLE_EQ(slo.itl_ms, 3 * 8 + 0.5 + 0.25 * (100 + 21));
}

TEST(SpecSection4_3, TheRateIsTheLargestThatKeepsBothTargets) {
  for (const Mode mode : {Mode::kClosedForm, Mode::kChain, Mode::kCorrected}) {
    ServiceModel model = closed_form();
    model.mode = mode;
    const Workload work = Workload::of(0, 512, 128);
    const Targets targets{.ttft_ms = 60, .itl_ms = 30};
    const Sizing found = size(model, work, targets).value();
    ASSERT_TRUE(found.reachable);
    EXPECT_DOUBLE_EQ(found.rate_per_s, std::min(*found.ttft_rate_per_s, *found.itl_rate_per_s));
    const auto holds = [&](double rate) {
      Workload there = work;
      there.rate_per_s = rate;
      const Latency found_there = at(model, there);
      return *found_there.ttft_ms <= targets.ttft_ms && *found_there.itl_ms <= targets.itl_ms;
    };
    EXPECT_TRUE(holds(found.rate_per_s * (1 - 1e-9))) << to_string(mode);
    EXPECT_FALSE(holds(found.rate_per_s * (1 + 1e-9))) << to_string(mode);
  }
}

TEST(SpecSection4_3, ReplicasAreTheArrivalOverTheRateRoundedUp) {
  EXPECT_EQ(replicas_for(10, 3).value(), 4);
  EXPECT_EQ(replicas_for(9, 3).value(), 3);
  EXPECT_EQ(replicas_for(0, 3).value(), 1);
  EXPECT_FALSE(replicas_for(10, 0));
  EXPECT_FALSE(replicas_for(-1, 3));
  EXPECT_FALSE(replicas_for(std::nan(""), 3));
  EXPECT_FALSE(replicas_for(10, std::nan("")));
  EXPECT_EQ(replicas_for(1e9, 1e-9).error().code, ErrorCode::kResourceExhausted);
}

TEST(SpecSection8, LimitsOfAReplicaThatNamesNone) {
  EXPECT_EQ(ServiceLimits{}.max_num_seqs, 256);
  EXPECT_EQ(ServiceLimits{}.max_queue, 100);
}

TEST(SpecSection9_2, ARequestAddsItsMeanWorkToEachOfItsIterations) {
  // Prefill (beta + gamma) · 2, decode steps beta + gamma · 3 and beta + gamma · 4, over three.
  ServiceModel model = closed_form();
  model.iteration = {.alpha_ms = 1, .beta_ms = 0.5, .gamma_ms = 0.25};
  const double work = (0.75 * 2) + (0.5 + 0.25 * 3) + (0.5 + 0.25 * 4);
  EXPECT_DOUBLE_EQ(at(model, Workload::of(0, 2, 2)).delta_ms, work / 3);
}

TEST(SpecSection9_3, ConcurrencyFollowsLittlesLaw) {
  const Latency found = at(closed_form(), Workload::of(0.5, 2048, 1024));
  EXPECT_NEAR(*found.concurrency, 0.5e-3 * 1025 * *found.iteration_ms, 1e-12);
  EXPECT_NEAR(*found.iteration_ms, 8 + *found.concurrency * found.delta_ms, 1e-9);
}

TEST(SpecSection9_3, IterationsLastAlphaOverTheIdleShareAndDivergeAtFullLoad) {
  const double most = at(closed_form(), Workload::of(0, 2048, 1024)).max_rate_per_s;
  for (const double rho : {0.0, 0.25, 0.9, 0.999}) {
    const Latency found = at(closed_form(), Workload::of(rho * most, 2048, 1024));
    ASSERT_TRUE(found.stable);
    EXPECT_NEAR(found.rho, rho, 1e-12);
    EXPECT_NEAR(*found.iteration_ms, 8 / (1 - rho), 1e-9 * 8 / (1 - rho));
  }
}

TEST(SpecSection9_3, AtFullLoadAndAboveTheReplicaIsNotStable) {
  const double most = at(closed_form(), Workload::of(0, 2048, 1024)).max_rate_per_s;
  for (const double rho : {1.0000001, 2.0, 1e6}) {
    const Latency found = at(closed_form(), Workload::of(rho * most, 2048, 1024));
    EXPECT_FALSE(found.stable);
    EXPECT_NEAR(found.rho, rho, 1e-9 * rho);
    EXPECT_FALSE(found.iteration_ms || found.ttft_ms || found.itl_ms || found.e2e_ms);
    EXPECT_EQ(found.max_rate_per_s, most);
  }
}

TEST(SpecSection9_4, FirstTokenTakesAWaitAndThePrefillsOwnWork) {
  const Latency found = at(closed_form(), Workload::of(0.5, 2048, 1024));
  EXPECT_NEAR(*found.ttft_ms, *found.iteration_ms + 0.0165 * 2048, 1e-9);
  EXPECT_EQ(*found.wait_ms, *found.iteration_ms);
}

TEST(SpecSection9_4, EachTokenTakesAnIterationAndItsOwnWork) {
  const Latency found = at(closed_form(), Workload::of(0.5, 2048, 1024));
  EXPECT_NEAR(*found.itl_ms, *found.iteration_ms + 0.016 + 0.0005 * (2048 + 512.5), 1e-9);
}

// What the authors' constructor and Size() refuse.
TEST(SizeValidation, RefusesWhatIsNoReplica) {
  const auto with = [](const auto& change) {
    ServiceModel model = closed_form();
    change(model);
    const auto found = size(model, Workload::of(0, 10, 10), {});
    return found ? std::string("accepted") : found.error().message;
  };
  EXPECT_EQ(with([](ServiceModel&) {}), "accepted");
  EXPECT_TRUE(
      with([](ServiceModel& m) { m.limits.max_num_seqs = 0; }).starts_with("max-batch: 0 "));
  EXPECT_TRUE(with([](ServiceModel& m) { m.limits.max_queue = -1; }).starts_with("max-queue: -1 "));
  EXPECT_TRUE(with([](ServiceModel& m) {
                m.limits.max_batched_tokens = -1;
              }).starts_with("max-batched-tokens: -1 "));
  EXPECT_TRUE(with([](ServiceModel& m) { m.iteration.alpha_ms = -1; }).starts_with("alpha: -1 "));
  EXPECT_TRUE(
      with([](ServiceModel& m) { m.iteration.beta_ms = std::nan(""); }).starts_with("beta: nan "));
  EXPECT_TRUE(
      with([](ServiceModel& m) { m.iteration.gamma_ms = HUGE_VAL; }).starts_with("gamma: inf "));
  EXPECT_TRUE(with([](ServiceModel& m) { m.iteration = {}; }).starts_with("alpha: "));
}

TEST(SizeValidation, RefusesWhatIsNoRequest) {
  for (const auto& [input, output] : {std::pair(-1.0, 10.0),
                                      {10.0, 0.0},
                                      {10.0, 0.99},
                                      {std::nan(""), 10.0},
                                      {10.0, std::nan("")},
                                      {2e9, 10.0}}) {
    EXPECT_FALSE(size(closed_form(), Workload::of(0, input, output), {})) << input << " " << output;
  }
  EXPECT_TRUE(size(closed_form(), Workload::of(0, 0, 1), {}));
}

TEST(SizeValidation, RefusesANegativeTargetAndNamesIt) {
  for (const auto& [targets, name] : {std::pair(Targets{.ttft_ms = -1}, "ttft: -1 "),
                                      {Targets{.itl_ms = -0.5}, "itl: -0.5 "},
                                      {Targets{.e2e_ms = std::nan("")}, "e2e: nan "},
                                      {Targets{.ttft_ms = HUGE_VAL}, "ttft: inf "}}) {
    const auto found = size(closed_form(), Workload::of(0, 10, 10), targets);
    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().message.starts_with(name)) << found.error().message;
  }
}

TEST(SizeValidation, ATargetOfZeroIsNoTarget) {
  const Workload work = Workload::of(0, 512, 128);
  for (const Mode mode : {Mode::kClosedForm, Mode::kChain, Mode::kCorrected}) {
    ServiceModel model = closed_form();
    model.mode = mode;
    const Sizing none = size(model, work, {}).value();
    EXPECT_TRUE(none.reachable);
    EXPECT_EQ(none.limit, SizingLimit::kStability);
    EXPECT_NEAR(none.rate_per_s, none.achieved.max_rate_per_s, 1e-8 * none.rate_per_s);
    EXPECT_FALSE(none.ttft_rate_per_s || none.itl_rate_per_s || none.e2e_rate_per_s);
    const Sizing one = size(model, work, {.itl_ms = 20}).value();
    EXPECT_EQ(one.limit, SizingLimit::kItl);
    EXPECT_FALSE(one.ttft_rate_per_s);
  }
}

TEST(SizeValidation, PublishedModesKnowNoPercentiles) {
  for (const Mode mode : {Mode::kClosedForm, Mode::kChain}) {
    ServiceModel model = closed_form();
    model.mode = mode;
    const auto found =
        size(model, Workload::of(0, 512, 128), {.ttft_ms = 100, .statistic = Statistic::kP99});
    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().message.starts_with("percentile: ")) << found.error().message;
  }
}

}  // namespace
}  // namespace tailrace::queueing
