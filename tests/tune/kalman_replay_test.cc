// The estimator `kalman` against a server that is its own model, without noise: what the published
// filter does with a perfect observation. Counts and rates are those of an independent replay.
//
// What that replay leaves open, and how it is read here so that every figure comes out: rho is the
// specification's (9.3); TTFT is what the filter predicts (wait and prefill, no decode step); a
// guess is made in each cycle in which nothing is stored; a rejected first update stores the guess;
// parameters are stored as 64-bit numbers (32-bit ones give the same counts); the ramp and the
// sawtooth include both ends, a tooth has ten steps (five and eleven give the same counts); the
// saturation rate is the closed form's, where rho is 1.
#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/tune/defaults.h"
#include "tailrace/tune/estimator.h"
#include "tune/estimators.h"
#include "tune/support/chain_server.h"

namespace tailrace::tune {
namespace {

using testing::ChainServer;

struct Replay {
  int accepted = 0, rejected = 0, not_created = 0;
  std::optional<double> first_nis;
  ParameterEstimate last;
  /// Closed-form saturation rate of the final parameters over the true one.
  std::optional<double> relative_rate;
};

Replay replay(const ChainServer& server, const std::vector<double>& loads) {
  TuneConfig config;
  config.estimator = EstimatorKind::kKalman;
  config.observation_mode = queueing::Mode::kChain;
  config.limits = server.limits();
  const auto estimator = make_kalman(config);
  Replay out;
  double time_s = 0;
  for (const double rho : loads) {
    const std::vector<Observation> cycle{server.at(rho, time_s += 60)};
    out.last = estimator->update(cycle);
    if (out.last.accepted) {
      ++out.accepted;
    } else if (out.last.nis) {
      ++out.rejected;
    } else {
      ++out.not_created;
      EXPECT_TRUE(out.last.reason.starts_with("not created")) << out.last.reason;
    }
    if (!out.first_nis) out.first_nis = out.last.nis;
  }
  if (out.last.values) {
    out.relative_rate =
        server.saturation_rate(*out.last.values) / server.saturation_rate(server.truth);
  }
  return out;
}

void expect_counts(const Replay& r, int accepted, int rejected, int not_created) {
  EXPECT_EQ(r.accepted, accepted);
  EXPECT_EQ(r.rejected, rejected);
  EXPECT_EQ(r.not_created, not_created);
}

/// As printed: two decimals.
void expect_rate(const Replay& r, double printed) {
  ASSERT_TRUE(r.relative_rate);
  EXPECT_NEAR(*r.relative_rate, printed, 0.005);
}

TEST(KalmanReplay, QwenAtLightConstantLoadIsLockedOutForEver) {
  const auto r = replay(ChainServer::qwen14b(), testing::constant_load(0.05, 40));
  expect_counts(r, 0, 40, 0);
  expect_rate(r, 0.21);
}

TEST(KalmanReplay, QwenAtATenthIsLockedOutForEver) {
  const auto r = replay(ChainServer::qwen14b(), testing::constant_load(0.10, 40));
  expect_counts(r, 0, 40, 0);
  expect_rate(r, 0.20);
}

TEST(KalmanReplay, QwenAtHigherConstantLoadNeverHasParameters) {
  for (const double rho : {0.30, 0.50}) {
    const auto r = replay(ChainServer::qwen14b(), testing::constant_load(rho, 40));
    expect_counts(r, 0, 0, 40);
    EXPECT_FALSE(r.last.values);
    EXPECT_FALSE(r.last.rate_per_s);
  }
}

TEST(KalmanReplay, QwenOnARampAcceptsOnceAndLosesTheTunerOnTheWay) {
  const auto r = replay(ChainServer::qwen14b(), testing::ramp_load());
  expect_counts(r, 1, 25, 55);
  expect_rate(r, 0.25);
}

TEST(KalmanReplay, LlamaAtLightConstantLoadIsLockedOutForEver) {
  for (const double rho : {0.05, 0.10}) {
    const auto r = replay(ChainServer::llama8b(), testing::constant_load(rho, 40));
    expect_counts(r, 0, 40, 0);
    expect_rate(r, 0.17);
  }
}

TEST(KalmanReplay, LlamaAtHigherConstantLoadNeverHasParameters) {
  for (const double rho : {0.30, 0.50}) {
    const auto r = replay(ChainServer::llama8b(), testing::constant_load(rho, 40));
    expect_counts(r, 0, 0, 40);
    EXPECT_FALSE(r.last.values);
  }
}

TEST(KalmanReplay, LlamaOnASawtoothAcceptsNothing) {
  const auto r = replay(ChainServer::llama8b(), testing::sawtooth_load());
  expect_counts(r, 0, 16, 64);
  expect_rate(r, 0.17);
}

TEST(KalmanReplay, GraniteAtLightConstantLoadIsAcceptedAndAFifthTooHigh) {
  const auto r = replay(ChainServer::granite(), testing::constant_load(0.05, 40));
  expect_counts(r, 40, 0, 0);
  expect_rate(r, 1.20);
  EXPECT_FALSE(r.last.identified) << "one load leaves a direction open: " << *r.last.condition;
}

TEST(KalmanReplay, GraniteAtAThirdIsLockedOut) {
  const auto r = replay(ChainServer::granite(), testing::constant_load(0.30, 40));
  expect_counts(r, 0, 40, 0);
  expect_rate(r, 0.86);
}

TEST(KalmanReplay, GraniteOnASawtoothRecoversTheTruth) {
  const auto r = replay(ChainServer::granite(), testing::sawtooth_load());
  expect_counts(r, 79, 1, 0);
  expect_rate(r, 1.00);
  EXPECT_NEAR(*r.relative_rate, 1, 1e-5);
  EXPECT_TRUE(r.last.identified) << *r.last.condition;
}

TEST(KalmanReplay, FirstNisAfterAnExactGuess) {
  const auto first_nis = [](double rho) {
    return replay(ChainServer::qwen14b(), {rho}).first_nis.value_or(0);
  };
  EXPECT_NEAR(first_nis(0.02), 8.99, 0.005);
  EXPECT_NEAR(first_nis(0.05), 23.1, 0.05);
  EXPECT_NEAR(first_nis(0.10), 35.5, 0.05);
  EXPECT_NEAR(first_nis(0.15), 10.1, 0.05);
}

TEST(KalmanReplay, FromRho018OnTheGuessSaturatesBelowTheLoad) {
  EXPECT_TRUE(replay(ChainServer::qwen14b(), {0.17}).first_nis);
  const auto r = replay(ChainServer::qwen14b(), {0.18});
  expect_counts(r, 0, 0, 1);
}

}  // namespace
}  // namespace tailrace::tune
