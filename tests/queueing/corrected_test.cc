// Is the corrected mode right where theory gives the answer, and does it say where it stops?
#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {
namespace {

ServiceModel model(IterationModel iteration, std::int64_t slots = 100'000) {
  ServiceModel out;
  out.iteration = iteration;
  out.limits = {.max_num_seqs = slots, .max_batched_tokens = 0};
  return out;
}

Latency at(const ServiceModel& model, const Workload& workload, Detail detail = Detail::kMeans) {
  const auto out = latency(model, workload, detail);
  EXPECT_TRUE(out.has_value());
  return out.value_or(Latency{});
}

constexpr IterationModel kSample{.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 5e-4};
constexpr IterationModel kH100{.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};

TEST(Corrected, AtRateZeroARequestIsAloneInEveryIteration) {
  const Latency out = at(model(kH100), Workload::of(0, 512, 128));
  const double prefill = (0.02 + 7.6e-5) * 512;
  const double decode = 0.02 + 7.6e-5 * (512 + 128.0 / 2);
  EXPECT_NEAR(*out.ttft_ms, 6 + prefill, 1e-9);
  EXPECT_NEAR(*out.itl_ms, 6 + decode, 1e-9);
  EXPECT_NEAR(*out.e2e_ms, 128 * 6.0 + prefill + 127 * decode, 1e-6);
  EXPECT_NEAR(*out.wait_ms, 0, 1e-9);
  EXPECT_NEAR(*out.concurrency, 0, 1e-12);
}

TEST(Corrected, BelowTheKneeTokensAreComputedForNothing) {
  IterationModel iteration = kH100;
  iteration.knee_tokens = 600;
  const Latency out = at(model(iteration), Workload::of(0, 512, 128));
  EXPECT_NEAR(*out.ttft_ms, 6 + 7.6e-5 * 512, 1e-9);
  iteration.knee_tokens = 200;
  const Latency beyond = at(model(iteration), Workload::of(0, 512, 128));
  EXPECT_NEAR(*beyond.ttft_ms, 6 + 0.02 * 312 + 7.6e-5 * 512, 1e-6);
}

TEST(Corrected, WithoutWorkPerTokenTheEngineIsAnInfiniteServer) {
  const double rate = 10;
  const Latency out =
      at(model({.alpha_ms = 25, .beta_ms = 0, .gamma_ms = 1e-12}), Workload::of(rate, 100, 40));
  EXPECT_NEAR(*out.iteration_ms, 25, 1e-6);
  EXPECT_NEAR(*out.itl_ms, 25, 1e-6);
  EXPECT_NEAR(*out.concurrency, rate * 1e-3 * 40 * 25, 1e-6);
  // Half an iteration until its own begins.
  EXPECT_NEAR(*out.ttft_ms, 1.5 * 25, 0.01);
}

TEST(Corrected, LongAnswersShareTheProcessor) {
  // E[n] = (a + rho) / (1 − rho), with a = rate · iterations · alpha.
  const Workload w = Workload::of(8, 0, 400);
  const IterationModel iteration{.alpha_ms = 0.05, .beta_ms = 0.2, .gamma_ms = 0};
  const Latency out = at(model(iteration), w);
  const double rho = 8e-3 * 399 * 0.2;
  const double a = 8e-3 * 400 * 0.05;
  EXPECT_NEAR(out.rho, rho, 1e-12);
  EXPECT_NEAR(*out.concurrency, (a + rho) / (1 - rho), 0.02 * (a + rho) / (1 - rho));
  EXPECT_NEAR(*out.iteration_ms, 0.05 / (1 - rho), 1e-9);
}

/// Erlang's C for `servers` at this load per server.
double erlang_c(int servers, double load) {
  const double offered = servers * load;
  double blocked = 1;
  for (int k = 1; k <= servers; ++k) blocked = offered * blocked / (k + offered * blocked);
  return blocked / (1 - load * (1 - blocked));
}

TEST(Corrected, SteadyIterationsAndExponentialLengthsAreErlangsQueue) {
  constexpr int kSlots = 16;
  const ServiceModel steady = model({.alpha_ms = 25, .beta_ms = 0, .gamma_ms = 1e-12}, kSlots);
  for (const double load : {0.5, 0.7, 0.8, 0.9}) {
    // A rounded-up exponential length; its variation over iterations is just below 1.
    const double rate = load * kSlots / (128 * 25e-3);
    const Latency out = at(steady, Workload::of(rate, 0, 128, 0, 1));
    const double service_ms = 128 * 25;
    const double wait = erlang_c(kSlots, load) * service_ms / (kSlots * (1 - load));
    EXPECT_NEAR(*out.wait_ms - 12.5, wait, 0.01 * wait + 0.05) << load;
    EXPECT_NEAR(out.max_rate_per_s, kSlots / (128 * 25e-3), 1e-6);
  }
}

TEST(Corrected, FixedLengthsWaitHalfAsLongInHeavyTraffic) {
  const ServiceModel steady = model({.alpha_ms = 25, .beta_ms = 0, .gamma_ms = 1e-12}, 8);
  const double rate = 0.98 * 8 / (128 * 25e-3);
  const double fixed = *at(steady, Workload::of(rate, 0, 128, 0, 0)).wait_ms;
  const double exponential = *at(steady, Workload::of(rate, 0, 128, 0, 1)).wait_ms;
  const double varied = *at(steady, Workload::of(rate, 0, 128, 0, 2)).wait_ms;
  EXPECT_NEAR(fixed / exponential, 0.5, 0.02);
  EXPECT_NEAR(varied / exponential, 2.5, 0.05);
}

// An engine that takes one iteration more than tokens; means of one simulation.
struct Published {
  IterationModel iteration;
  double in, out;
  std::int64_t slots;
  double rho, ttft_ms, itl_ms;
};

TEST(Corrected, AgreesWithSimulationsOfThePublishedEngine) {
  constexpr IterationModel kA100{.alpha_ms = 16, .beta_ms = 0.048, .gamma_ms = 9.2e-5};
  const Published rows[] = {
      {kSample, 512, 128, 100'000, 0.3, 26, 11.9},   {kSample, 512, 128, 100'000, 0.67, 47, 25.4},
      {kSample, 512, 128, 100'000, 0.9, 135, 84.2},  {kSample, 2048, 512, 100'000, 0.5, 60, 18.5},
      {kSample, 2048, 512, 100'000, 0.8, 102, 46.2}, {kH100, 512, 128, 100'000, 0.3, 24, 8.7},
      {kH100, 512, 128, 100'000, 0.67, 42, 18.7},    {kH100, 512, 128, 100'000, 0.9, 110, 62.6},
      {kH100, 2048, 512, 100'000, 0.9, 145, 63.6},   {kA100, 512, 128, 256, 0.67, 111, 49.6}};
  for (const Published& row : rows) {
    ServiceModel published = model(row.iteration, row.slots);
    published.iterations = Iterations::kOutputPlusOne;
    const double work = (row.iteration.beta_ms + row.iteration.gamma_ms) * row.in +
                        row.out * row.iteration.beta_ms +
                        row.iteration.gamma_ms * row.out * (row.in + (row.out + 1) / 2);
    const Latency out = at(published, Workload::of(1e3 * row.rho / work, row.in, row.out));
    // The rows are rounded to whole milliseconds.
    EXPECT_NEAR(*out.ttft_ms, row.ttft_ms, 0.03 * row.ttft_ms + 0.5) << row.in << ' ' << row.rho;
    EXPECT_NEAR(*out.itl_ms, row.itl_ms, 0.03 * row.itl_ms + 0.05) << row.in << ' ' << row.rho;
  }
}

TEST(Corrected, HeavyTailsCostCapacity) {
  const ServiceModel m = model(kSample, 256);
  const double fixed = at(m, Workload::of(0, 512, 128)).max_rate_per_s;
  const double tailed = at(m, Workload::of(0, 512, 128, 0, 1.81)).max_rate_per_s;
  EXPECT_LT(tailed, 0.85 * fixed);
}

TEST(Corrected, LongContextsSlowEverybodyForAsLongAsTheyStay) {
  // 20,000 requests of the emulated engine, prompts and answers log-normal.
  const ServiceModel m = model(kSample, 64);
  struct Simulated {
    double rate, ttft_ms, itl_ms, running, per_sequence_ms;
  };
  const Simulated simulated[] = {{0.0972, 48.09, 12.17, 1.20, 2.17},
                                 {0.1945, 54.85, 15.89, 3.13, 2.11},
                                 {0.2917, 66.14, 23.17, 6.84, 2.10}};
  for (const Simulated& row : simulated) {
    const Latency out = at(m, Workload::of(row.rate, 2039, 1010, 0.810, 1.406));
    EXPECT_NEAR(*out.ttft_ms, row.ttft_ms, 0.025 * row.ttft_ms);
    EXPECT_NEAR(*out.itl_ms, row.itl_ms, 0.03 * row.itl_ms);
    EXPECT_NEAR(*out.concurrency, row.running, 0.03 * row.running);
    EXPECT_NEAR(*out.itl_per_sequence_ms, row.per_sequence_ms, 0.12 * row.per_sequence_ms);
  }
}

TEST(Corrected, OneMoreSequenceCostsItsTokenAndItsContext) {
  const Latency out = at(model(kH100), Workload::of(2, 1024, 256));
  EXPECT_NEAR(*out.itl_per_sequence_ms, 0.02 + 7.6e-5 * (1024 + 128), 2e-4);
  EXPECT_FALSE(at(model(kH100), Workload::of(2, 1024, 1)).itl_per_sequence_ms);
}

TEST(Corrected, AKneeIsFilledByMostPromptsOfRandomSize) {
  // 15,400 requests of the emulated engine, prompts log-normal with a
  // coefficient of variation of 1, answers exponential. Prompts are hardly ever shorter than the
  // knee; normal ones of the same moments would be, one in five.
  ServiceModel m =
      model({.alpha_ms = 15, .beta_ms = 0.059, .gamma_ms = 4.8e-5, .knee_tokens = 256}, 256);
  m.limits.max_batched_tokens = 0;
  const double simulated[][3] = {{2.9623, 215.3, 25.6}, {4.1472, 295.0, 36.4}};
  for (const auto& [rate, ttft_ms, itl_ms] : simulated) {
    const Latency out = at(m, Workload::of(rate, 2026.6, 253.66, 1.0025, 1.0185));
    EXPECT_NEAR(*out.ttft_ms, ttft_ms, 0.05 * ttft_ms);
    EXPECT_NEAR(*out.itl_ms, itl_ms, 0.03 * itl_ms);
  }
}

TEST(Corrected, AKneeThatNobodyReachesMakesNobodyWait) {
  ServiceModel m = model({.alpha_ms = 0.2, .beta_ms = 0.04, .gamma_ms = 2e-5, .knee_tokens = 1e9});
  m.limits.max_batched_tokens = 14;
  const Latency out = at(m, Workload::of(0.05, 9, 950, 20, 0));
  EXPECT_LT(*out.wait_ms, 1);
  EXPECT_LT(*out.ttft_ms, 10);
}

TEST(Corrected, GapsAtLowRatesAreThoseOfARequestThatIsAlone) {
  ServiceModel m = model({.alpha_ms = 6.9, .beta_ms = 0.027, .gamma_ms = 1e-3}, 4);
  Workload w = Workload::of(0, 8000, 256);
  w.prefix_hit = 0.9;
  const double alone = *at(m, w).itl_ms;
  for (const double rate : {0.0, 1e-6, 1e-3, 3e-3, 0.01}) {
    w.rate_per_s = rate;
    const Latency out = latency_unchecked(m, w, Detail::kPercentiles);
    ASSERT_TRUE(out.itl_percentiles_ms.has_value());
    EXPECT_NEAR(out.itl_percentiles_ms->p50, alone, 0.03 * alone) << rate;
    // At the highest of these rates one in 26 has another beside it: 1.5 times as long.
    EXPECT_LT(out.itl_percentiles_ms->p99, (rate < 0.01 ? 1.3 : 1.8) * alone) << rate;
  }
}

TEST(Corrected, NoRateIsServedWhereOneRequestExceedsMemory) {
  const Workload w = Workload::of(0, 1024, 256);
  ServiceModel m = model(kH100, 256);
  m.limits.kv_tokens = 1279;
  const Latency out = at(m, w);
  EXPECT_FALSE(out.stable);
  EXPECT_EQ(out.max_rate_per_s, 0);
  EXPECT_EQ(out.binding, Binding::kKvTokens);
  EXPECT_FALSE(out.ttft_ms.has_value());
  m.limits.kv_tokens = 1280;
  EXPECT_TRUE(at(m, w).stable);
}

TEST(Corrected, EachLimitBindsWhereItIsTheLeast) {
  const Workload w = Workload::of(0, 2048, 512);
  ServiceModel m = model(kH100, 256);
  const Latency slots = at(m, w);
  EXPECT_EQ(slots.binding, Binding::kSequences);
  EXPECT_NEAR(slots.max_rate_per_s, 1e3 * 256 / (512 * (6 + 256 * slots.delta_ms)), 1e-9);

  m.limits.max_batched_tokens = 512;
  const Latency budget = at(m, w);
  EXPECT_EQ(budget.binding, Binding::kTokenBudget);
  // An iteration of 512 tokens finishes 512 / (2048 + 511) requests.
  const double per_iteration = 512.0 / 2559;
  const double decode_kv = 2048 + 256;
  const double full = 6 + 0.02 * 512 + 7.6e-5 * per_iteration * (2048 + 511 * decode_kv);
  EXPECT_NEAR(budget.max_rate_per_s, 1e3 * per_iteration / full, 1e-9);
  EXPECT_LT(budget.max_rate_per_s, slots.max_rate_per_s);

  m.limits.max_batched_tokens = 8192;
  m.limits.kv_tokens = 112'000;
  const Latency memory = at(m, w);
  EXPECT_EQ(memory.binding, Binding::kKvTokens);
  EXPECT_LT(memory.max_rate_per_s, slots.max_rate_per_s);
}

TEST(Corrected, AnUnstableRateIsAnAnswerWithoutLatencies) {
  const ServiceModel m = model(kH100, 256);
  const double most = at(m, Workload::of(0, 512, 128)).max_rate_per_s;
  const Latency over = at(m, Workload::of(1.001 * most, 512, 128), Detail::kPercentiles);
  EXPECT_FALSE(over.stable);
  EXPECT_FALSE(over.ttft_ms.has_value());
  EXPECT_FALSE(over.ttft_percentiles_ms.has_value());
}

TEST(Corrected, ChunksAddIterationsToTheFirstTokenOnly) {
  const Workload w = Workload::of(0.5, 8192, 256);
  ServiceModel m = model(kH100, 256);
  const Latency whole = at(m, w);
  m.limits.max_batched_tokens = 2048;
  const Latency chunked = at(m, w);
  EXPECT_GT(*chunked.ttft_ms, *whole.ttft_ms + 3 * 6);
  EXPECT_NEAR(*chunked.itl_ms, *whole.itl_ms, 1e-9);
}

TEST(Corrected, CachedPromptTokensAreTouchedButNotComputed) {
  const ServiceModel m = model(kH100, 256);
  Workload w = Workload::of(0, 2048, 256);
  w.prefix_hit = 0.5;
  EXPECT_NEAR(*at(m, w).ttft_ms, 6 + 0.02 * 1024 + 7.6e-5 * 2048, 1e-9);
}

TEST(Corrected, SaysWhereItStops) {
  const Workload shape = Workload::of(0, 2048, 512);
  const auto reason = [&](ServiceModel m, double share) {
    Workload w = shape;
    w.rate_per_s = share * at(m, w).max_rate_per_s;
    return at(m, w).out_of_range;
  };
  ServiceModel m = model(kH100, 256);
  EXPECT_EQ(reason(m, 0.89), OutOfRange::kNone);
  EXPECT_EQ(reason(m, 0.91), OutOfRange::kNearSaturation);
  m.limits.max_batched_tokens = 512;
  EXPECT_EQ(reason(m, 0.75), OutOfRange::kNone);
  EXPECT_EQ(reason(m, 0.81), OutOfRange::kPrefillDominated);
  m.limits = {.max_num_seqs = 256, .max_batched_tokens = 8192, .kv_tokens = 112'000};
  EXPECT_EQ(reason(m, 0.74), OutOfRange::kNone);
  EXPECT_EQ(reason(m, 0.76), OutOfRange::kMemoryBound);
}

// What few slots, or few requests' memory, do depends on how the longest answers meet.
TEST(Corrected, StopsEarlierWhereRequestsWaitForSlotsOrFewFitIntoMemory) {
  ServiceModel m = model(kH100, 32);
  Workload w = Workload::of(0, 264, 464, 0.5, 1.8);
  w.rate_per_s = 0.3 * at(m, w).max_rate_per_s;
  EXPECT_EQ(at(m, w).out_of_range, OutOfRange::kNone);
  w.rate_per_s = 0.8 * at(m, w).max_rate_per_s;
  EXPECT_EQ(at(m, w).out_of_range, OutOfRange::kNearSaturation);

  m.limits = {.max_num_seqs = 32, .max_batched_tokens = 0, .kv_tokens = 10'000};
  w = Workload::of(0, 158, 230, 0.5, 1.8);
  w.rate_per_s = 0.4 * at(m, w).max_rate_per_s;
  EXPECT_EQ(at(m, w).out_of_range, OutOfRange::kMemoryBound);
}

TEST(Corrected, AnIdleEngineServesAllAlike) {
  const Latency out = at(model(kH100, 256), Workload::of(0, 512, 128), Detail::kPercentiles);
  EXPECT_NEAR(out.ttft_percentiles_ms->p99, *out.ttft_ms, 1e-4);
  EXPECT_NEAR(out.ttft_percentiles_ms->p50, *out.ttft_ms, 1e-4);
  EXPECT_NEAR(out.e2e_percentiles_ms->p99, *out.e2e_ms, 1e-2);
}

TEST(Corrected, SteadyIterationsSpreadFirstTokensOverOneOfThem) {
  const Latency out = at(model({.alpha_ms = 20, .beta_ms = 0, .gamma_ms = 1e-12}),
                         Workload::of(50, 100, 100), Detail::kPercentiles);
  EXPECT_NEAR(out.ttft_percentiles_ms->p50, 30, 0.01);
  EXPECT_NEAR(out.ttft_percentiles_ms->p90, 38, 0.01);
  EXPECT_NEAR(out.ttft_percentiles_ms->p99, 39.8, 0.01);
  EXPECT_NEAR(out.itl_percentiles_ms->p99, 20, 0.01);
}

TEST(Corrected, APromptOfNextToNoTokensIsNone) {
  ServiceModel bounded = model(kH100, 256);
  bounded.limits.max_batched_tokens = 100;
  const Workload none = Workload::of(0.5, 0, 1000), hardly = Workload::of(0.5, 1e-309, 1000);
  EXPECT_NEAR(*at(bounded, hardly).ttft_ms, *at(bounded, none).ttft_ms, 1e-9);
  const auto sized = size(bounded, hardly, {.ttft_ms = 100});
  EXPECT_TRUE(sized && std::isfinite(*sized->achieved.ttft_ms));
}

TEST(Corrected, AnswersOfOneTokenHaveNoGaps) {
  const Latency out = at(model(kH100, 256), Workload::of(30, 512, 1), Detail::kPercentiles);
  EXPECT_NEAR(*out.e2e_ms, *out.ttft_ms, 1e-12);
  EXPECT_FALSE(out.itl_percentiles_ms.has_value());
}

}  // namespace
}  // namespace tailrace::queueing
