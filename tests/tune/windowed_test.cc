#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/queueing/sizing.h"
#include "tailrace/tune/estimator.h"
#include "tune/chi_square.h"

namespace tailrace::tune {
namespace {

using queueing::IterationModel;

const IterationModel kQwen{.alpha_ms = 10.645, .beta_ms = 0.04176, .gamma_ms = 5.77e-5};
const IterationModel kGranite{.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 5e-4};

/// A pod whose latencies are the corrected model's own.
struct Server {
  IterationModel iteration = kQwen;
  queueing::ServiceLimits limits;
  double input = 1024, output = 256;

  queueing::ServiceModel model() const {
    queueing::ServiceModel out;
    out.iteration = iteration;
    out.limits = limits;
    return out;
  }
  double most() const {
    return latency_unchecked(model(), queueing::Workload::of(0, input, output),
                             queueing::Detail::kMeans)
        .max_rate_per_s;
  }
  /// At `share` of the largest rate.
  Observation report(double share, double time_s, const std::string& pod = "a") const {
    Observation o;
    o.time_s = time_s;
    o.pod = pod;
    o.rate_per_s = share * most();
    o.input_tokens = input;
    o.output_tokens = output;
    const auto at = latency_unchecked(model(), queueing::Workload::of(*o.rate_per_s, input, output),
                                      queueing::Detail::kMeans);
    o.ttft_ms = at.ttft_ms;
    o.itl_ms = at.itl_ms;
    o.requests = 1000;
    return o;
  }
};

TuneConfig config_for(const Server& server) {
  TuneConfig config;
  config.limits = server.limits;
  const auto at = latency_unchecked(
      server.model(), queueing::Workload::of(0.8 * server.most(), server.input, server.output),
      queueing::Detail::kMeans);
  config.ttft_ms = *at.ttft_ms;
  config.itl_ms = *at.itl_ms;
  return config;
}

std::unique_ptr<Estimator> estimator_for(const Server& server) {
  return make_estimator(config_for(server)).value();
}

ParameterEstimate teach(Estimator& estimator, const Observation& o) {
  return estimator.update({&o, 1});
}

/// Loads from 0.1 to 0.8 of the largest rate, up and down.
double varying(int cycle) {
  return 0.45 + 0.35 * std::sin(0.7 * cycle);
}

ParameterEstimate teach_varying(Estimator& estimator, const Server& server, int from, int to) {
  ParameterEstimate last;
  for (int cycle = from; cycle < to; ++cycle) {
    last = teach(estimator, server.report(varying(cycle), 60.0 * cycle));
  }
  return last;
}

void expect_near(const IterationModel& got, const IterationModel& truth, double share) {
  EXPECT_NEAR(got.alpha_ms / truth.alpha_ms, 1, share);
  EXPECT_NEAR(got.beta_ms / truth.beta_ms, 1, share);
  EXPECT_NEAR(got.gamma_ms / truth.gamma_ms, 1, share);
}

TEST(WindowedEstimator, KnowsNothingBeforeTheFirstUsableReport) {
  const auto estimator = estimator_for(Server{});
  EXPECT_FALSE(estimator->current().values.has_value());
  const auto none = estimator->update({});
  EXPECT_FALSE(none.values.has_value());
  EXPECT_FALSE(none.accepted);
  EXPECT_THAT(none.reason, testing::HasSubstr("no pod reported"));
}

TEST(WindowedEstimator, HasValuesAndARateFromTheFirstUsableReportOn) {
  const Server server;
  const auto estimator = estimator_for(server);
  const auto first = teach(*estimator, server.report(0.4, 0));
  ASSERT_TRUE(first.values.has_value());
  EXPECT_TRUE(first.accepted);
  EXPECT_FALSE(first.identified);
  ASSERT_TRUE(first.rate_per_s && first.rate_low_per_s && first.rate_high_per_s);
  EXPECT_NEAR(*first.rate_per_s / (0.8 * server.most()), 1, 0.3);
  EXPECT_LT(*first.rate_low_per_s, 0.8 * server.most());
  EXPECT_GT(*first.rate_high_per_s, 0.8 * server.most());
}

TEST(WindowedEstimator, RecoversTheParametersUnderVaryingLoad) {
  for (const IterationModel& truth : {kQwen, kGranite}) {
    Server server;
    server.iteration = truth;
    const auto estimator = estimator_for(server);
    const auto last = teach_varying(*estimator, server, 0, 40);
    expect_near(*last.values, truth, 0.01);
    EXPECT_TRUE(last.identified) << last.reason;
    EXPECT_NEAR(*last.rate_per_s / (0.8 * server.most()), 1, 0.01);
    EXPECT_LE(*last.rate_low_per_s, 0.8 * server.most());
    EXPECT_GE(*last.rate_high_per_s, 0.8 * server.most());
  }
}

TEST(WindowedEstimator, FollowsTheRatioOfDataFarFromItsPrior) {
  Server server;
  server.iteration = kGranite;  // 1/32, where the prior expects 1/500
  const auto last = teach_varying(*estimator_for(server), server, 0, 40);
  EXPECT_NEAR(last.values->gamma_ms / last.values->beta_ms * 32, 1, 0.02);
}

TEST(WindowedEstimator, SaysThatConstantLoadDoesNotIdentify) {
  const Server server;
  const auto estimator = estimator_for(server);
  ParameterEstimate last;
  for (int cycle = 0; cycle < 40; ++cycle) {
    last = teach(*estimator, server.report(0.3 + 1e-4 * cycle, 60.0 * cycle));
  }
  EXPECT_FALSE(last.identified);
  EXPECT_GT(*last.condition, 100);
  EXPECT_THAT(last.reason,
              testing::HasSubstr("alpha and gamma trade off: load and lengths have hardly varied"));
  EXPECT_NEAR(*last.rate_per_s / (0.8 * server.most()), 1, 0.15);
}

TEST(WindowedEstimator, PodsAtDifferentLoadsIdentifyInOneCycle) {
  const Server server;
  const auto estimator = estimator_for(server);
  std::vector<Observation> cycle;
  for (int pod = 0; pod < 6; ++pod) {
    cycle.push_back(
        server.report(0.1 + 0.14 * pod, 0, std::string(1, static_cast<char>('a' + pod))));
  }
  const auto only = estimator->update(cycle);
  EXPECT_TRUE(only.identified) << only.reason;
  expect_near(*only.values, kQwen, 0.05);
}

TEST(WindowedEstimator, TheOrderOfPodsDecidesNothing) {
  const Server server;
  const auto forwards = estimator_for(server), backwards = estimator_for(server);
  for (int k = 0; k < 10; ++k) {
    std::vector<Observation> cycle;
    for (int pod = 0; pod < 8; ++pod) {
      cycle.push_back(server.report(varying(3 * k + pod), 60.0 * k,
                                    std::string(1, static_cast<char>('a' + pod))));
    }
    cycle[3].ttft_ms = std::nan("");
    forwards->update(cycle);
    std::reverse(cycle.begin(), cycle.end());
    backwards->update(cycle);
    EXPECT_TRUE(forwards->save() == backwards->save());
  }
}

TEST(WindowedEstimator, StaleNumbersTeachNothing) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach_varying(*estimator, server, 0, 10);
  const auto before = estimator->current();
  Observation o = server.report(varying(9), 600);
  o.time_s = 700;  // a new time on old numbers
  const auto after = teach(*estimator, o);
  EXPECT_FALSE(after.accepted);
  EXPECT_THAT(after.reason, testing::HasSubstr("stale"));
  EXPECT_EQ(after.values, before.values);
  EXPECT_EQ(after.covariance, before.covariance);
}

TEST(WindowedEstimator, RequestsThatOutlastTheIntervalAreSaid) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach(*estimator, server.report(0.3, 60));
  EXPECT_THAT(teach(*estimator, server.report(0.31, 120)).reason,
              testing::Not(testing::HasSubstr("requests last")));
  EXPECT_THAT(teach(*estimator, server.report(0.32, 125)).reason,
              testing::HasSubstr("of an interval"));
}

TEST(WindowedEstimator, WhatIsSavedAfterTimesAsCloseAsNumbersGoIsTakenAgain) {
  const Server server;
  const auto estimator = estimator_for(server);
  for (const double time_s : {0.0, 2.3e-308}) teach(*estimator, server.report(0.5, time_s));
  const auto other = estimator_for(server);
  ASSERT_TRUE(other->restore(estimator->save()));
  EXPECT_EQ(other->save(), estimator->save());
}

TEST(WindowedEstimator, MissingZeroAndImpossibleNumbersNeverMoveAParameter) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach_varying(*estimator, server, 0, 10);
  const auto before = estimator->current();
  double time_s = 1000;
  for (const std::optional<double> wrong :
       {std::optional<double>(), std::optional(0.0), std::optional(-1.0), std::optional(1e300),
        std::optional(5e-324), std::optional(std::nan("")), std::optional(HUGE_VAL)}) {
    for (auto field : {&Observation::rate_per_s, &Observation::input_tokens,
                       &Observation::output_tokens, &Observation::ttft_ms, &Observation::itl_ms}) {
      Observation o = server.report(0.5, time_s += 60);
      o.*field = wrong;
      const auto after = teach(*estimator, o);
      EXPECT_FALSE(after.accepted);
      EXPECT_EQ(after.values, before.values);
      EXPECT_FALSE(after.reason.empty());
    }
  }
  Observation nobody = server.report(0.5, time_s + 60);
  nobody.requests = 0;
  EXPECT_FALSE(teach(*estimator, nobody).accepted);
}

TEST(WindowedEstimator, ALineInFrontOfTheBatchNeverMovesAParameter) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach_varying(*estimator, server, 0, 20);
  const auto before = estimator->current();
  for (int k = 0; k < 6; ++k) {
    Observation o = server.report(0.9, 2000 + 60 * k);
    o.rate_per_s = 1.2 * server.most();
    o.ttft_ms = 3000.0 * (k + 1);
    const auto after = teach(*estimator, o);
    EXPECT_FALSE(after.accepted);
    EXPECT_THAT(after.reason, testing::HasSubstr("saturated"));
    EXPECT_EQ(after.values, before.values);
  }
  Observation waiting = server.report(0.7, 5000);
  waiting.waiting = 400;
  EXPECT_THAT(teach(*estimator, waiting).reason, testing::HasSubstr("saturated"));
  EXPECT_TRUE(teach(*estimator, server.report(0.55, 6000)).accepted);
}

TEST(WindowedEstimator, ALineAtTheVeryStartTeachesNothing) {
  Server server;
  const auto estimator = estimator_for(server);
  Observation o = server.report(0.9, 0);
  o.rate_per_s = 1.3 * server.most();
  o.ttft_ms = 40'000;
  EXPECT_FALSE(teach(*estimator, o).values.has_value());
}

TEST(WindowedEstimator, MemoryTooSmallForOneRequestIsNamedAndNotTakenForALine) {
  const Server server;
  TuneConfig config;
  config.limits.kv_tokens = 50;
  const auto estimator = std::move(*make_estimator(config));
  const auto after = teach(*estimator, server.report(0.5, 0));
  EXPECT_THAT(after.reason, testing::HasSubstr("no request fits"));
  EXPECT_THAT(after.reason, testing::HasSubstr("exceed the 50 that memory"));
  EXPECT_FALSE(after.values);
}

TEST(WindowedEstimator, AnswersOfOneTokenTeachWhateverSpreadAnExporterClaims) {
  const Server server;
  TuneConfig config;
  const auto estimator = std::move(*make_estimator(config));
  Observation o = server.report(0.1, 0);
  o.output_tokens = 1;
  o.output_cv = 0.3;
  EXPECT_TRUE(teach(*estimator, o).values.has_value());
}

TEST(WindowedEstimator, TheRateIsGivenUnderAnyTargetsAsIfTheyHadBeenItsOwn) {
  const Server server;
  const auto config = config_for(server);
  const auto with_targets = estimator_for(server);
  auto without_config = config;
  without_config.ttft_ms = without_config.itl_ms = 0;
  const auto without = std::move(*make_estimator(without_config));
  teach_varying(*with_targets, server, 0, 20);
  teach_varying(*without, server, 0, 20);
  const auto lengths = queueing::Workload::of(0, server.input, server.output);
  const auto under = without->current_under(0.7 * config.ttft_ms, config.itl_ms, lengths);
  ASSERT_TRUE(under.rate_low_per_s && under.rate_high_per_s);
  EXPECT_LT(*under.rate_per_s, *without->current().rate_per_s);
  const auto same = without->current_under(config.ttft_ms, config.itl_ms, lengths);
  const auto own = with_targets->current();
  EXPECT_DOUBLE_EQ(*same.rate_per_s, *own.rate_per_s);
  EXPECT_DOUBLE_EQ(*same.rate_low_per_s, *own.rate_low_per_s);
  EXPECT_DOUBLE_EQ(*same.rate_high_per_s, *own.rate_high_per_s);
}

TEST(WindowedEstimator, OneOutlierIsRejectedAndWidensWhatIsKnown) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach_varying(*estimator, server, 0, 20);
  const auto before = estimator->current();
  Observation o = server.report(0.5, 2000);
  o.itl_ms = *o.itl_ms * 1.6;
  o.ttft_ms = *o.ttft_ms * 1.6;
  const auto after = teach(*estimator, o);
  EXPECT_FALSE(after.accepted);
  EXPECT_GT(*after.nis, chi_square_quantile(0.995, 2));
  EXPECT_EQ(after.values, before.values);
  const auto next = teach(*estimator, server.report(0.52, 2060));
  EXPECT_TRUE(next.accepted);
  expect_near(*next.values, kQwen, 0.02);
  EXPECT_GT((*next.covariance)[0], (*before.covariance)[0]);
}

TEST(WindowedEstimator, AWrongStartIsNotKeptForEver) {
  const Server server;
  const auto estimator = estimator_for(server);
  Observation wrong = server.report(0.3, 0);
  wrong.ttft_ms = *wrong.ttft_ms * 5;
  wrong.itl_ms = *wrong.itl_ms / 5;
  teach(*estimator, wrong);
  const auto last = teach_varying(*estimator, server, 1, 30);
  EXPECT_TRUE(last.accepted) << last.reason;
  EXPECT_NEAR(*last.rate_per_s / (0.8 * server.most()), 1, 0.05);
}

TEST(WindowedEstimator, FollowsADoublingOfAlphaWithinTenCycles) {
  const Server before;
  const auto estimator = estimator_for(before);
  teach_varying(*estimator, before, 0, 30);
  Server after = before;
  after.iteration.alpha_ms *= 2;
  ParameterEstimate last;
  bool said = false;
  for (int k = 30; k < 40; ++k) {
    last = teach(*estimator, after.report(varying(k), 60.0 * k));
    said = said || last.reason.find("have changed") != std::string::npos;
  }
  EXPECT_TRUE(said);
  EXPECT_NEAR(last.values->alpha_ms / after.iteration.alpha_ms, 1, 0.1);
  EXPECT_NEAR(last.values->beta_ms / after.iteration.beta_ms, 1, 0.1);
}

TEST(WindowedEstimator, SaysWhenNewCyclesAreForetoldBadly) {
  const Server server;
  const auto estimator = estimator_for(server);
  Rng rng(5);
  ParameterEstimate last;
  for (int cycle = 0; cycle < 40; ++cycle) {
    Observation o = server.report(varying(cycle), 60.0 * cycle);
    // No model of this form explains a TTFT that goes its own way.
    o.ttft_ms = *o.ttft_ms * (cycle % 2 == 0 ? 1.3 : 0.77);
    o.requests = 8;
    last = teach(*estimator, o);
  }
  ASSERT_TRUE(last.holdout_error.has_value());
  EXPECT_GT(*last.holdout_error, 0.1);
  const auto good = teach_varying(*estimator_for(server), server, 0, 40);
  EXPECT_LT(*good.holdout_error, 0.02);
}

TEST(WindowedEstimator, TheNumberRunningIsAThirdObservation) {
  const Server server;
  const auto estimator = estimator_for(server);
  for (int cycle = 0; cycle < 20; ++cycle) {
    Observation o = server.report(varying(cycle), 60.0 * cycle);
    o.running = latency_unchecked(server.model(), queueing::Workload::of(*o.rate_per_s, 1024, 256),
                                  queueing::Detail::kMeans)
                    .concurrency;
    EXPECT_TRUE(teach(*estimator, o).accepted);
  }
  expect_near(*estimator->current().values, kQwen, 0.01);
  Observation wrong = server.report(0.5, 5000);
  wrong.running = 1000;  // nothing else speaks against this one
  EXPECT_FALSE(teach(*estimator, wrong).accepted);
}

/// With what one more sequence adds to a gap, as well as `error` says.
Observation with_pace(const Server& server, double share, double time_s, double error) {
  Observation o = server.report(share, time_s);
  o.itl_per_sequence_ms =
      latency_unchecked(server.model(),
                        queueing::Workload::of(*o.rate_per_s, server.input, server.output),
                        queueing::Detail::kMeans)
          .itl_per_sequence_ms;
  o.itl_per_sequence_error = error;
  return o;
}

TEST(WindowedEstimator, WhatOneMoreSequenceAddsIdentifiesAnyEngineAtOneLoad) {
  for (const IterationModel& truth : {kQwen, kGranite}) {
    Server server{.iteration = truth, .limits = {}};
    server.limits.max_num_seqs = 64;
    const auto estimator = estimator_for(server);
    ParameterEstimate last;
    for (int cycle = 0; cycle < 3; ++cycle) {
      last = teach(*estimator, with_pace(server, 0.3 + 1e-3 * cycle, 60.0 * cycle, 0.01));
    }
    EXPECT_TRUE(last.identified) << last.reason;
    expect_near(*last.values, truth, 0.1);
    EXPECT_NEAR(*last.rate_per_s / (0.8 * server.most()), 1, 0.05);
  }
}

TEST(WindowedEstimator, APaceThatIsNoiseOrCannotBeIsNotUsed) {
  const Server server{.iteration = kGranite, .limits = {}};
  const auto plain = estimator_for(server);
  for (int cycle = 0; cycle < 5; ++cycle)
    teach(*plain, server.report(0.3 + 1e-3 * cycle, 60.0 * cycle));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<double, double> bad[] = {{1, 0.31},   {1e6, 0.01}, {-1, 0.01}, {0, 0.01},
                                           {nan, 0.01}, {1, nan},    {1, -1}};
  for (const auto& [pace, error] : bad) {
    const auto estimator = estimator_for(server);
    for (int cycle = 0; cycle < 5; ++cycle) {
      Observation o = server.report(0.3 + 1e-3 * cycle, 60.0 * cycle);
      o.itl_per_sequence_ms = pace;
      o.itl_per_sequence_error = error;
      const auto estimate = teach(*estimator, o);
      EXPECT_TRUE(estimate.accepted);
      EXPECT_NE(estimate.reason.find("itl_per_sequence_"), std::string::npos) << estimate.reason;
    }
    EXPECT_EQ(estimator->current().values->gamma_ms, plain->current().values->gamma_ms)
        << pace << " " << error;
  }
}

TEST(WindowedEstimator, APaceThatTheBatchCouldNotHaveIsNotUsed) {
  const Server server{.iteration = kGranite, .limits = {}};
  const auto gamma_with = [&](std::optional<double> share_of_all) {
    const auto estimator = estimator_for(server);
    for (int cycle = 0; cycle < 5; ++cycle) {
      Observation o = server.report(0.3 + 1e-3 * cycle, 60.0 * cycle);
      const double batch = 1e-3 * *o.rate_per_s * server.output * *o.itl_ms;
      EXPECT_GT(batch, 3);
      if (share_of_all) o.itl_per_sequence_ms = *share_of_all * *o.itl_ms / batch;
      o.itl_per_sequence_error = 0;
      teach(*estimator, o);
    }
    return estimator->current().values->gamma_ms;
  };
  EXPECT_EQ(gamma_with(2.1), gamma_with({})) << "the batch would make more than the gap of it";
  EXPECT_NE(gamma_with(0.9), gamma_with({}));
}

TEST(WindowedEstimator, APaceIsNotUsedWhereLengthsHaveJustChanged) {
  const Server before{.iteration = kGranite, .limits = {}, .input = 256, .output = 64};
  const Server after{.iteration = kGranite, .limits = {}, .input = 2048, .output = 1024};
  const auto learnt = [&](std::optional<double> pace) {
    const auto estimator = estimator_for(before);
    teach(*estimator, before.report(0.3, 60));
    Observation o = after.report(0.3, 120);
    o.itl_per_sequence_ms = pace;  // of the short contexts before
    o.itl_per_sequence_error = 0.01;
    return teach(*estimator, o).values->gamma_ms;
  };
  EXPECT_EQ(learnt(0.1), learnt(std::nullopt));
}

TEST(WindowedEstimator, APaceWithoutItsErrorCountsForLess) {
  const Server server{.iteration = kGranite, .limits = {}};
  const auto sure = estimator_for(server), unsure = estimator_for(server);
  for (int cycle = 0; cycle < 5; ++cycle) {
    Observation o = with_pace(server, 0.3 + 1e-3 * cycle, 60.0 * cycle, 0);
    teach(*sure, o);
    o.itl_per_sequence_error.reset();
    teach(*unsure, o);
  }
  const auto width = [](const Estimator& estimator) {
    const auto estimate = estimator.current();
    return *estimate.rate_high_per_s - *estimate.rate_low_per_s;
  };
  EXPECT_GT(width(*unsure), 1.1 * width(*sure));
}

TEST(WindowedEstimator, WithoutTargetsTheRateIsAShareOfTheLargest) {
  const Server server;
  TuneConfig config;
  const auto estimator = make_estimator(config).value();
  const auto last = teach_varying(*estimator, server, 0, 40);
  EXPECT_NEAR(*last.rate_per_s / (0.8 * server.most()), 1, 0.01);
}

TEST(WindowedEstimator, StartsFromAPriorWhereOneIsKnown) {
  const Server server;
  TuneConfig config = config_for(server);
  config.prior = PriorParameters{.values = kQwen, .log_sd = 0.1};
  const auto first = teach(*make_estimator(config).value(), server.report(0.1, 0));
  expect_near(*first.values, kQwen, 0.02);
}

TEST(WindowedEstimator, GoesOnAfterARestartAsIfThereHadBeenNone) {
  const Server server;
  const auto one = estimator_for(server);
  teach_varying(*one, server, 0, 15);
  const auto other = estimator_for(server);
  ASSERT_TRUE(other->restore(one->save()).has_value());
  EXPECT_TRUE(other->save() == one->save());
  for (int k = 15; k < 25; ++k) {
    const auto a = teach(*one, server.report(varying(k), 60.0 * k));
    const auto b = teach(*other, server.report(varying(k), 60.0 * k));
    EXPECT_EQ(a.values, b.values);
    EXPECT_EQ(a.rate_low_per_s, b.rate_low_per_s);
    EXPECT_TRUE(one->save() == other->save());
  }
}

TEST(WindowedEstimator, RefusesADamagedDocumentAndStaysAsItWas) {
  const Server server;
  const auto estimator = estimator_for(server);
  teach_varying(*estimator, server, 0, 5);
  const std::string good = estimator->save();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  EXPECT_EQ(estimator->restore("").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(estimator->restore(good.substr(0, good.size() / 2)).error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(estimator->restore(replaced("\"version\":2", "\"version\":3")).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(estimator->restore(replaced("\"windowed\"", "\"kalman\"")).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(estimator->restore(replaced("\"scales\":[", "\"scales\":[-1,")).error().code,
            ErrorCode::kDataLoss);
  EXPECT_TRUE(estimator->save() == good);
}

TEST(ChiSquareQuantile, MatchesTheTables) {
  EXPECT_NEAR(chi_square_quantile(0.95, 2), 5.991, 5e-4);
  EXPECT_NEAR(chi_square_quantile(0.975, 2), 7.378, 5e-4);
  EXPECT_NEAR(chi_square_quantile(0.99, 2), 9.210, 5e-4);
  EXPECT_NEAR(chi_square_quantile(0.95, 3), 7.815, 5e-4);
}

TEST(Windowed, RefusesAPriorWithoutWidthOrWithoutEnd) {
  for (const double log_sd : {5e-324, 1e-7, 101.0, 1e308}) {
    TuneConfig config;
    config.prior = PriorParameters{.values = kQwen, .log_sd = log_sd};
    EXPECT_FALSE(make_estimator(config)) << log_sd;
  }
}

TEST(Windowed, AReportOfNextToNoTrafficDoesNotSpoilTheLengthsOfTheOthers) {
  TuneConfig config;
  const auto estimator = make_estimator(config).value();
  std::vector<Observation> cycle(2);
  for (auto& pod : cycle) {
    pod.ttft_ms = 60;
    pod.itl_ms = 12;
  }
  cycle[0].pod = "a", cycle[0].rate_per_s = 1e-16;
  cycle[0].input_tokens = 1e9, cycle[0].output_tokens = 1e9;
  cycle[1].pod = "b", cycle[1].rate_per_s = 3;
  cycle[1].input_tokens = 512, cycle[1].output_tokens = 20;
  estimator->update(cycle);
  const auto other = make_estimator(config).value();
  EXPECT_TRUE(other->restore(estimator->save()));
}

}  // namespace
}  // namespace tailrace::tune
