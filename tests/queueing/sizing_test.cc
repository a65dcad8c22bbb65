// What does a sizing say beside its rate?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {
namespace {

using ::testing::HasSubstr;

constexpr Mode kModes[] = {Mode::kClosedForm, Mode::kChain, Mode::kCorrected};

ServiceModel llama(Mode mode) {
  ServiceModel model;
  model.mode = mode;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  return model;
}

Sizing of(Mode mode, const Targets& targets, double output_cv = 0) {
  return size(llama(mode), Workload::of(0, 512, 128, 0, output_cv), targets).value();
}

TEST(Sizing, TheTighterTargetBinds) {
  for (const Mode mode : kModes) {
    EXPECT_EQ(of(mode, {.ttft_ms = 25, .itl_ms = 100}).limit, SizingLimit::kTtft);
    EXPECT_EQ(of(mode, {.ttft_ms = 1000, .itl_ms = 15}).limit, SizingLimit::kItl);
    EXPECT_EQ(of(mode, {.ttft_ms = 1000, .itl_ms = 100, .e2e_ms = 1200}).limit, SizingLimit::kE2e);
    EXPECT_EQ(of(mode, {.ttft_ms = 1e12}).limit, SizingLimit::kStability);
  }
}

TEST(Sizing, WhereOnlyStabilityEndsTheRateNoTimeIncludesItsEndlessQueue) {
  const Sizing none = of(Mode::kCorrected, {}, 1);
  EXPECT_EQ(none.limit, SizingLimit::kStability);
  EXPECT_FALSE(none.achieved.ttft_ms || none.achieved.e2e_ms || none.achieved.wait_ms);
  EXPECT_TRUE(none.achieved.itl_ms);
  EXPECT_LE(*none.achieved.concurrency, 256);
  EXPECT_THAT(none.reason, HasSubstr("grows without bound"));
  EXPECT_TRUE(of(Mode::kCorrected, {.ttft_ms = 1e12}, 1).achieved.ttft_ms) << "it was asked for";
}

TEST(Sizing, ATargetPerFurtherTokenDoesNotBindWhereThereIsNone) {
  const auto alone = [](const Targets& targets) {
    return size(llama(Mode::kCorrected), Workload::of(0, 512, 1), targets).value();
  };
  const Sizing both = alone({.ttft_ms = 100, .itl_ms = 0.001});
  const Sizing ttft = alone({.ttft_ms = 100});
  EXPECT_TRUE(both.reachable);
  EXPECT_EQ(both.limit, SizingLimit::kTtft);
  EXPECT_EQ(both.rate_per_s, ttft.rate_per_s);
  EXPECT_GT(*both.itl_rate_per_s, both.rate_per_s);
  EXPECT_THAT(both.reason, HasSubstr("answers of one token have no time between tokens"));
}

TEST(Workloads, MomentsThatNoLengthsHaveAreRefusedWithTheSpreadThatIsPossible) {
  const auto one = check(Workload::of(1, 100, 1, 0, 0.5));
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("output second moment: 1.25 is not from 1 to 1"));
  EXPECT_THAT(one.error().message, HasSubstr("give a coefficient of variation from 0 to 0"));
  EXPECT_TRUE(check(Workload::of(1, 100, 1)));
  EXPECT_TRUE(check(Workload::of(1, 100, 1.1, 3, 2)));
  EXPECT_FALSE(check(Workload::of(1, 100, 2, 0, 1e6)));
  EXPECT_TRUE(check(Workload::of(1, 1e9, 1e9)));
  auto noisy = Workload::of(1, 100, 1, 0, 0.5);
  keep_possible_moments(noisy);
  EXPECT_TRUE(check(noisy));
  EXPECT_EQ(noisy.output_cv(), 0);
}

TEST(Sizing, TheReasonNamesTheTargetAndTheRate) {
  const Sizing found = of(Mode::kClosedForm, {.ttft_ms = 1000, .itl_ms = 15});
  EXPECT_EQ(found.reason, "above 32.4328 requests/s the time per token passes its target of 15 ms");
}

TEST(Sizing, AnUnreachableTargetSaysByHowMuchAndWhatWouldHaveToChange) {
  for (const Mode mode : kModes) {
    const Sizing found = of(mode, {.ttft_ms = 10, .itl_ms = 15});
    EXPECT_FALSE(found.reachable);
    EXPECT_EQ(found.rate_per_s, 0);
    EXPECT_EQ(found.throughput_per_s, 0);
    EXPECT_EQ(found.limit, SizingLimit::kTtft);
    EXPECT_FALSE(found.ttft_rate_per_s);
    EXPECT_TRUE(found.itl_rate_per_s);
    EXPECT_GT(*found.achieved.ttft_ms, 10);
    EXPECT_THAT(found.reason, HasSubstr("% above its target of 10 ms"));
    EXPECT_THAT(found.reason, HasSubstr("shorter prompts or a faster accelerator"));
  }
}

TEST(Sizing, ReplicasWhoseMemoryHoldsNoRequestServeNone) {
  ServiceModel model = llama(Mode::kCorrected);
  model.limits.kv_tokens = 600;
  const Sizing found = size(model, Workload::of(0, 512, 128), {.ttft_ms = 1000}).value();
  EXPECT_FALSE(found.reachable);
  EXPECT_EQ(found.rate_per_s, 0);
  EXPECT_THAT(found.reason, HasSubstr("512 prompt and 128 answer tokens exceed the 600 tokens"));
}

TEST(Sizing, OfSeveralUnreachableTargetsTheWorstIsNamed) {
  const Sizing found = of(Mode::kClosedForm, {.ttft_ms = 16, .itl_ms = 0.5, .e2e_ms = 700});
  EXPECT_EQ(found.limit, SizingLimit::kItl);
  EXPECT_FALSE(found.ttft_rate_per_s || found.itl_rate_per_s || found.e2e_rate_per_s);
}

TEST(Sizing, TargetsThatContradictEachOtherAreNoError) {
  for (const Mode mode : kModes) {
    // An answer shorter than its first token.
    EXPECT_FALSE(of(mode, {.ttft_ms = 1000, .itl_ms = 100, .e2e_ms = 5}).reachable);
    EXPECT_EQ(of(mode, {.ttft_ms = 1e-300, .itl_ms = 1e300}).limit, SizingLimit::kTtft);
  }
}

TEST(Sizing, ChainsCapacityIsWhatItServesNotWhatArrives) {
  ServiceModel model = llama(Mode::kChain);
  model.limits.max_num_seqs = 8;
  model.limits.max_queue = 2;
  const Sizing found = size(model, Workload::of(0, 512, 128), {.ttft_ms = 1e6}).value();
  EXPECT_EQ(found.rate_per_s, found.achieved.max_rate_per_s);
  EXPECT_LT(found.throughput_per_s, 0.95 * found.rate_per_s);
  EXPECT_EQ(found.throughput_per_s, *found.achieved.throughput_per_s);
}

TEST(Sizing, LengthsThatVaryCostCapacityOnlyInTheCorrectedModel) {
  const Targets targets{.ttft_ms = 100, .itl_ms = 25};
  EXPECT_LT(of(Mode::kCorrected, targets, 1.8).rate_per_s,
            0.95 * of(Mode::kCorrected, targets).rate_per_s);
  for (const Mode mode : {Mode::kClosedForm, Mode::kChain}) {
    EXPECT_EQ(of(mode, targets, 1.8).rate_per_s, of(mode, targets).rate_per_s);
  }
}

TEST(Sizing, WorkThatCostsNothingHasALargestRateAllTheSame) {
  for (const Mode mode : kModes) {
    ServiceModel model = llama(mode);
    model.iteration = {.alpha_ms = 6};
    const Sizing found = size(model, Workload::of(0, 512, 128), {.ttft_ms = 100}).value();
    EXPECT_TRUE(found.reachable);
    EXPECT_TRUE(std::isfinite(found.rate_per_s) && found.rate_per_s > 0) << to_string(mode);
    EXPECT_TRUE(std::isfinite(found.achieved.max_rate_per_s));
  }
}

/// Says what the formula says at a rate that is `harsher` times as large; counts what it is asked.
class HarsherThanTheFormula : public LatencyOracle {
 public:
  explicit HarsherThanTheFormula(double harsher) : harsher_(harsher) {}

  Result<Latency> latency(const ServiceModel& model, const Workload& workload) const override {
    ++calls;
    Workload harder = workload;
    harder.rate_per_s *= harsher_;
    Latency out = latency_unchecked(model, harder, Detail::kMeans);
    out.max_rate_per_s /= harsher_;
    out.throughput_per_s = workload.rate_per_s;
    out.from_oracle = true;
    return out;
  }

  mutable int calls = 0;

 private:
  double harsher_;
};

// Latencies near saturation grow so fast that what they are off by does not move the rate.
TEST(Sizing, ARateIsKnownWhereItsLatenciesAreNot) {
  const Sizing steep = of(Mode::kCorrected, {.ttft_ms = 400, .itl_ms = 100});
  EXPECT_EQ(steep.achieved.out_of_range, OutOfRange::kNearSaturation);
  EXPECT_EQ(steep.out_of_range, OutOfRange::kNone);

  // Memory for about 200 requests: gaps are known far from saturation, waits for memory are not.
  ServiceModel model = llama(Mode::kCorrected);
  model.limits.kv_tokens = 200 * 576;
  const Workload shape = Workload::of(0, 512, 128);
  const double most = latency(model, shape)->max_rate_per_s;
  Workload busy = shape;
  busy.rate_per_s = 0.85 * most;
  const double itl_ms = *latency(model, busy)->itl_ms;
  const Sizing gaps = size(model, shape, {.ttft_ms = 1000, .itl_ms = itl_ms}).value();
  EXPECT_EQ(gaps.achieved.out_of_range, OutOfRange::kMemoryBound);
  EXPECT_EQ(gaps.limit, SizingLimit::kItl);
  EXPECT_EQ(gaps.out_of_range, OutOfRange::kNone);
  const double ttft_ms = *latency(model, busy)->ttft_ms;
  const Sizing waits = size(model, shape, {.ttft_ms = ttft_ms}).value();
  EXPECT_EQ(waits.out_of_range, OutOfRange::kMemoryBound);
  EXPECT_THAT(waits.reason, HasSubstr("simulate to be sure"));
  // Percentiles are off by more.
  const Sizing p99 =
      size(model, shape, {.itl_ms = 3 * itl_ms, .statistic = Statistic::kP99}).value();
  EXPECT_EQ(p99.out_of_range, p99.achieved.out_of_range);
}

TEST(Sizing, SaysHowFarATargetIsMissedWhereNoNumberDoes) {
  EXPECT_THAT(of(Mode::kCorrected, {.ttft_ms = 1e-308}).reason,
              HasSubstr("already, far above its target of 1e-308 ms"));
}

// What a mix allows is what its tightest target allows when it is asked about alone.
TEST(Sizing, EachTargetMayBindAStatisticOfItsOwn) {
  const Targets ttft{.ttft_ms = 150, .statistic = Statistic::kP90};
  const Targets itl{.itl_ms = 20};
  const Targets e2e{.e2e_ms = 6'000, .statistic = Statistic::kP99};
  for (const double looser_ttft : {1.0, 10.0}) {
    for (const double looser_itl : {1.0, 10.0}) {
      for (const double looser_e2e : {1.0, 10.0}) {
        Targets mix{.ttft_ms = looser_ttft * ttft.ttft_ms,
                    .itl_ms = looser_itl * itl.itl_ms,
                    .e2e_ms = looser_e2e * e2e.e2e_ms,
                    .ttft_statistic = Statistic::kP90,
                    .e2e_statistic = Statistic::kP99};
        const Sizing all = of(Mode::kCorrected, mix);
        const Sizing alone[] = {
            of(Mode::kCorrected, {.ttft_ms = mix.ttft_ms, .statistic = Statistic::kP90}),
            of(Mode::kCorrected, {.itl_ms = mix.itl_ms}),
            of(Mode::kCorrected, {.e2e_ms = mix.e2e_ms, .statistic = Statistic::kP99})};
        const Sizing* tightest = &alone[0];
        for (const Sizing& one : alone) {
          if (one.rate_per_s < tightest->rate_per_s) tightest = &one;
        }
        EXPECT_NEAR(all.rate_per_s, tightest->rate_per_s, 0.01 * tightest->rate_per_s);
        EXPECT_EQ(all.limit, tightest->limit);
        EXPECT_NEAR(*all.itl_rate_per_s, *alone[1].itl_rate_per_s, 1e-9 * *all.itl_rate_per_s);
        EXPECT_LE(all.achieved.ttft_percentiles_ms->p90, mix.ttft_ms);
        EXPECT_LE(*all.achieved.itl_ms, mix.itl_ms * (1 + 1e-9));
        EXPECT_LE(all.achieved.e2e_percentiles_ms->p99, mix.e2e_ms);
      }
    }
  }
  EXPECT_THAT(
      of(Mode::kCorrected, {.ttft_ms = 1, .itl_ms = 20, .ttft_statistic = Statistic::kP90}).reason,
      HasSubstr("the P90 of the time to first token is"));
  const auto published = size(llama(Mode::kChain), Workload::of(0, 512, 128),
                              {.itl_ms = 20, .itl_statistic = Statistic::kP90});
  EXPECT_THAT(published.error().message, HasSubstr("itl: the chain model knows means only"));
}

TEST(SizingWithAnOracle, FewSimulationsCorrectTheFormulaNearSaturation) {
  const Targets targets{.ttft_ms = 400, .itl_ms = 100};
  const Sizing formula = of(Mode::kCorrected, targets);
  ASSERT_EQ(formula.achieved.out_of_range, OutOfRange::kNearSaturation);
  EXPECT_THAT(formula.reason, HasSubstr("out of their range there (near-saturation)"));
  for (const double harsher : {0.97, 1.0, 1.03, 1.1, 1.5}) {
    auto oracle = std::make_shared<HarsherThanTheFormula>(harsher);
    ServiceModel model = llama(Mode::kCorrected);
    model.oracle = oracle;
    const Sizing found = size(model, Workload::of(0, 512, 128), targets).value();
    EXPECT_TRUE(found.achieved.from_oracle);
    EXPECT_LE(*found.achieved.ttft_ms, targets.ttft_ms);
    EXPECT_LE(*found.achieved.itl_ms, targets.itl_ms);
    // The formula's own largest rate stays the end of the search.
    EXPECT_NEAR(found.rate_per_s,
                std::min(formula.rate_per_s / harsher, formula.achieved.max_rate_per_s),
                0.02 * found.rate_per_s)
        << harsher;
    EXPECT_LE(oracle->calls, 8);
    EXPECT_THAT(found.reason, HasSubstr("by simulation"));
  }
}

TEST(SizingWithAnOracle, WithoutTargetsTheBacklogIsTheLimit) {
  ServiceModel model = llama(Mode::kCorrected);
  model.oracle = std::make_shared<HarsherThanTheFormula>(1.2);
  const Sizing found = size(model, Workload::of(0, 512, 128), {}).value();
  EXPECT_EQ(found.limit, SizingLimit::kStability);
  const double most = found.achieved.max_rate_per_s;
  EXPECT_GT(found.rate_per_s, 0.97 * most);
  EXPECT_LT(found.rate_per_s, most);
}

TEST(SizingWithAnOracle, ItIsNotAskedWhereTheFormulaHolds) {
  auto oracle = std::make_shared<HarsherThanTheFormula>(2);
  ServiceModel model = llama(Mode::kCorrected);
  model.oracle = oracle;
  const Targets targets{.itl_ms = 12};
  const Sizing found = size(model, Workload::of(0, 512, 128), targets).value();
  EXPECT_EQ(found.rate_per_s, of(Mode::kCorrected, targets).rate_per_s);
  EXPECT_EQ(oracle->calls, 0);
}

/// Finds no rate stable.
class Pessimist : public LatencyOracle {
 public:
  Result<Latency> latency(const ServiceModel&, const Workload& workload) const override {
    Latency out;
    out.max_rate_per_s = workload.rate_per_s / 2;
    return out;
  }
};

TEST(SizingWithAnOracle, TheFormulaStandsWhereNoSimulationConfirmsARate) {
  ServiceModel model = llama(Mode::kCorrected);
  model.oracle = std::make_shared<Pessimist>();
  const Targets targets{.itl_ms = 100};
  const Sizing found = size(model, Workload::of(0, 512, 128), targets).value();
  EXPECT_EQ(found.rate_per_s, of(Mode::kCorrected, targets).rate_per_s);
  EXPECT_FALSE(found.achieved.from_oracle);
}

}  // namespace
}  // namespace tailrace::queueing
