#include "tailrace/tune/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/queueing/sizing.h"
#include "tune/support/chain_server.h"
#include "tune/support/vectors.h"

namespace tailrace::tune {
namespace {

using simdjson::dom::element;

double number(const element& object, std::string_view name) {
  return double(object[name]);
}

void expect_close(double ours, double theirs, std::string_view id, double relative = 1e-9) {
  EXPECT_NEAR(ours, theirs, relative * std::abs(theirs)) << id;
}

queueing::Workload lengths(const element& in) {
  return queueing::Workload::of(0, number(in, "in_"), number(in, "out"));
}

queueing::ServiceModel closed_form(const queueing::IterationModel& iteration) {
  queueing::ServiceModel model;
  model.mode = queueing::Mode::kClosedForm;
  model.iteration = iteration;
  return model;
}

void expect_published_guess(std::string_view id, const element& in, const element& expected) {
  const auto guess = published_bootstrap(lengths(in), number(in, "TTFT"), number(in, "ITL"));
  ASSERT_EQ(guess.has_value(), bool(expected["ok"])) << id;
  if (!guess) return;
  expect_close(guess->alpha_ms, number(expected, "alpha"), id);
  expect_close(guess->beta_ms, number(expected, "beta"), id);
  expect_close(guess->gamma_ms, number(expected, "gamma"), id);
}

TEST(SpecSection9_5, BootstrapReproducesOurOwnVectors) {
  testing::for_each_golden_vector("bootstrap", expect_published_guess);
}

TEST(SpecSection9_5, BootstrapReproducesTheSharedVectors) {
  if (!testing::for_each_shared_vector("bootstrap", expect_published_guess)) {
    GTEST_SKIP() << "no shared vectors; set TAILRACE_SHARED";
  }
  testing::for_each_shared_vector("bootstrap bias", expect_published_guess);
}

TEST(SpecSection9_5, AlphaIsNineTenthsOfItl) {
  const auto guess = published_bootstrap(queueing::Workload::of(1, 512, 128), 60, 12);
  ASSERT_TRUE(guess);
  EXPECT_DOUBLE_EQ(guess->alpha_ms, 0.9 * 12);
}

TEST(SpecSection9_5, InvertsTheEquationsOfAnIdleReplica) {
  // 9.4 at rho = 0 with the guess gives the observation back.
  const auto w = queueing::Workload::of(1e-9, 512, 128);
  const auto guess = published_bootstrap(w, 60, 12);
  ASSERT_TRUE(guess);
  const auto at = queueing::latency(closed_form(*guess), w);
  ASSERT_TRUE(at);
  EXPECT_NEAR(*at->ttft_ms, 60, 1e-6);
  EXPECT_NEAR(*at->itl_ms, 12, 1e-6);
}

TEST(SpecSection9_5, AnyParameterAtOrBelowZeroFailsAndIsNamed) {
  const auto w = queueing::Workload::of(1, 100, 100);
  const auto gamma = published_bootstrap(w, 200, 10);
  ASSERT_FALSE(gamma);
  EXPECT_NE(gamma.error().message.find("gamma"), std::string::npos) << gamma.error().message;
  const auto beta = published_bootstrap(w, 9, 10);  // TTFT is all alpha: beta + gamma is 0
  ASSERT_FALSE(beta);
  EXPECT_NE(beta.error().message.find("beta"), std::string::npos) << beta.error().message;
}

TEST(SpecSection9_5, OnePromptTokenAndNoAnswerTellNothingOfGamma) {
  EXPECT_FALSE(published_bootstrap(queueing::Workload::of(1, 0.5, 0), 60, 12));
}

TEST(LoadAwareBootstrap, ReproducesTheSharedVectorsAtAnyLoad) {
  const auto check = [](std::string_view id, const element& in, const element& expected) {
    // The vectors print the observation with ten digits, and 1 / (1 - rho) multiplies what that
    // loses; so observe the same replica here, at the load that the vector means.
    const auto server = testing::ChainServer::qwen14b();
    auto w = lengths(in);
    w.rate_per_s =
        server.rate_at(std::round(100 * number(in, "lambda_rps") / server.rate_at(1)) / 100);
    const auto seen = queueing::latency(closed_form(server.truth), w);
    ASSERT_TRUE(seen) << id;
    expect_close(w.rate_per_s, number(in, "lambda_rps"), id);
    expect_close(*seen->ttft_ms, number(in, "TTFT"), id);
    expect_close(*seen->itl_ms, number(in, "ITL"), id);

    const auto guess = load_aware_bootstrap(w, *seen->ttft_ms, *seen->itl_ms, number(in, "r"));
    ASSERT_TRUE(guess) << id;
    expect_close(guess->values.alpha_ms, number(expected, "alpha"), id);
    expect_close(guess->values.beta_ms, number(expected, "beta"), id);
    expect_close(guess->values.gamma_ms, number(expected, "gamma"), id);
    expect_close(guess->rho, number(expected, "rho"), id);
    expect_close(guess->iteration_ms, number(expected, "T_iter"), id);
    const auto sized =
        queueing::size(closed_form(guess->values), w, {.ttft_ms = 500, .itl_ms = 50});
    ASSERT_TRUE(sized) << id;
    expect_close(sized->rate_per_s, number(expected, "lambda_star_500_50"), id);
  };
  if (!testing::for_each_shared_vector("load-aware bootstrap (own)", check)) {
    GTEST_SKIP() << "no shared vectors; set TAILRACE_SHARED";
  }
}

TEST(LoadAwareBootstrap, FindsTheTruthWhereTheRatioIsRight) {
  const queueing::IterationModel truth{.alpha_ms = 7, .beta_ms = 0.03, .gamma_ms = 6e-5};
  for (const double rate : {0.01, 4.0, 15.0}) {
    const auto w = queueing::Workload::of(rate, 700, 200);
    const auto at = queueing::latency(closed_form(truth), w);
    ASSERT_TRUE(at && at->stable);
    const auto guess = load_aware_bootstrap(w, *at->ttft_ms, *at->itl_ms, 2e-3);
    ASSERT_TRUE(guess);
    EXPECT_NEAR(guess->values.alpha_ms, truth.alpha_ms, 1e-7);
    EXPECT_NEAR(guess->values.beta_ms, truth.beta_ms, 1e-9);
    EXPECT_NEAR(guess->rho, at->rho, 1e-9);
  }
}

TEST(LoadAwareBootstrap, SaysWhyItHasNoGuess) {
  const auto w = queueing::Workload::of(1, 1024, 256);
  const auto message = [](const Result<LoadAwareGuess>& guess) {
    return guess ? std::string("a guess") : guess.error().message;
  };
  EXPECT_NE(message(load_aware_bootstrap(w, 10, 10)).find("not above ITL"), std::string::npos);
  EXPECT_NE(
      message(load_aware_bootstrap(queueing::Workload::of(1, 1, 256), 60, 10)).find("too short"),
      std::string::npos);
  EXPECT_NE(message(load_aware_bootstrap(queueing::Workload::of(1000, 1024, 256), 60, 10))
                .find("saturate"),
            std::string::npos);
}

}  // namespace
}  // namespace tailrace::tune
