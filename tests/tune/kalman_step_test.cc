#include "tailrace/tune/kalman.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tailrace/tune/defaults.h"
#include "tune/support/vectors.h"

namespace tailrace::tune {
namespace {

using simdjson::dom::element;

template <std::size_t N>
std::array<double, N> list(const element& from) {
  std::array<double, N> out{};
  std::size_t i = 0;
  for (const element item : simdjson::dom::array(from)) out.at(i++) = double(item);
  return out;
}

/// A matrix of the vectors, row by row.
std::vector<double> flat(const element& from) {
  std::vector<double> out;
  for (const element item : simdjson::dom::array(from)) {
    if (item.is_array()) {
      for (const element cell : simdjson::dom::array(item)) out.push_back(double(cell));
    } else {
      out.push_back(double(item));
    }
  }
  return out;
}

template <std::size_t N>
void expect_close(const std::array<double, N>& ours, const element& theirs, double relative,
                  std::string_view what) {
  const auto expected = flat(theirs);
  ASSERT_EQ(expected.size(), N) << what;
  for (std::size_t i = 0; i < N; ++i) {
    EXPECT_NEAR(ours[i], expected[i], relative * std::abs(expected[i])) << what << " " << i;
  }
}

KalmanPrediction predictor(const element& in) {
  queueing::ServiceModel model;
  model.mode = queueing::Mode::kClosedForm;
  double batch = 0;
  if (in["max_batch"].get(batch) == simdjson::SUCCESS) {
    model.mode = queueing::Mode::kChain;
    model.limits.max_num_seqs = static_cast<std::int64_t>(batch);
    model.limits.max_queue = static_cast<std::int64_t>(double(in["max_queue"]));
  }
  const auto w =
      queueing::Workload::of(double(in["lambda_rps"]), double(in["in_"]), double(in["out"]));
  return [model, w](const KalmanState& x) mutable {
    model.iteration = {.alpha_ms = x[0], .beta_ms = x[1], .gamma_ms = x[2]};
    return kalman_prediction(model, w);
  };
}

void expect_step(std::string_view id, const element& in, const element& expected) {
  const auto x0 = list<3>(in["x0"]);
  const auto z = list<2>(in["z"]);
  const auto noise = KalmanNoise::of(x0, z);
  const KalmanBounds bounds{list<3>(in["min"]), list<3>(in["max"])};
  const auto step = kalman_step(x0, noise.process, noise, bounds, z, predictor(in));
  SCOPED_TRACE(std::string(id));
  constexpr double kRelative = 1e-8;
  expect_close(step.predicted, expected["h"], kRelative, "h");
  expect_close(step.innovation, expected["innovation"], kRelative, "innovation");
  expect_close(step.jacobian, expected["H"], kRelative, "H");
  expect_close(step.covariance, expected["S"], kRelative, "S");
  expect_close(step.gain, expected["K"], kRelative, "K");
  expect_close(step.unclamped, expected["x_unclamped"], kRelative, "x unclamped");
  expect_close(step.state, expected["x"], kRelative, "x");
  expect_close(step.uncertainty, expected["P"], kRelative, "P");
  const double nis = double(expected["NIS"]);
  ASSERT_TRUE(step.nis);
  EXPECT_NEAR(*step.nis, nis, kRelative * nis);
  EXPECT_EQ(step.verdict == KalmanVerdict::kAccepted, bool(expected["accepted"]));
}

TEST(SpecSection4_2, StepsReproduceOurOwnVectors) {
  testing::for_each_golden_vector("EKF single step", expect_step);
}

TEST(SpecSection4_2, StepsReproduceTheSharedVectors) {
  if (!testing::for_each_shared_vector("EKF single step", expect_step)) {
    GTEST_SKIP() << "no shared vectors; set TAILRACE_SHARED";
  }
}

/// A model of which the state is the answer, so that a test sees what the filter does to it.
const KalmanPrediction kAlphaAndBeta = [](const KalmanState& x) {
  return std::optional(KalmanMeasurement{x[0], x[1]});
};
const KalmanBounds kWide{{1e-9, 1e-9, 1e-9}, {1e9, 1e9, 1e9}};

KalmanStep step_to(const KalmanMeasurement& z, const KalmanPrediction& predict = kAlphaAndBeta) {
  const KalmanState x{10, 5, 1};
  const auto noise = KalmanNoise::of(x, z);
  return kalman_step(x, noise.process, noise, kWide, z, predict);
}

TEST(SpecSection4_2, PredictsByIdentityAndAddsProcessNoise) {
  // With P = Q = (0.05 x)², S less R is 2 (0.05 x)²: the prediction left x alone and added Q once.
  const auto step = step_to({10, 5});
  EXPECT_DOUBLE_EQ(step.predicted[0], 10);
  EXPECT_DOUBLE_EQ(step.predicted[1], 5);
  EXPECT_NEAR(step.covariance[0] - std::pow(0.05 / 1.96 * 10, 2), 2 * std::pow(0.05 * 10, 2), 1e-9);
  EXPECT_NEAR(step.covariance[3] - std::pow(0.05 / 1.96 * 5, 2), 2 * std::pow(0.05 * 5, 2), 1e-9);
}

TEST(SpecSection4_2, MovesTowardsTheObservation) {
  const auto step = step_to({10.5, 4.9});
  ASSERT_EQ(step.verdict, KalmanVerdict::kAccepted);
  EXPECT_GT(step.state[0], 10);
  EXPECT_LT(step.state[0], 10.5);
  EXPECT_LT(step.state[1], 5);
  EXPECT_GT(step.state[1], 4.9);
  EXPECT_LT(step.uncertainty[0], 2 * std::pow(0.05 * 10, 2)) << "an observation narrows P";
  EXPECT_DOUBLE_EQ(step.state[2], 1) << "what is not observed does not move";
}

TEST(SpecSection4_2, NisAtTheThresholdIsRejected) {
  // The distance of alpha alone sets NIS; find the observation at which it crosses 7.378.
  double low = 10, high = 20;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (*step_to({middle, 5}).nis < kMaxNis ? low : high) = middle;
  }
  EXPECT_EQ(step_to({low, 5}).verdict, KalmanVerdict::kAccepted);
  const auto above = step_to({high, 5});
  EXPECT_GE(*above.nis, kMaxNis);
  EXPECT_EQ(above.verdict, KalmanVerdict::kOutlier);
}

TEST(SpecSection4_2, TheThresholdIsThe975QuantileOfChiSquareWithTwoDegreesOfFreedom) {
  const boost::math::chi_squared law(2);
  EXPECT_NEAR(kMaxNis, boost::math::quantile(law, 0.975), 5e-4);
  EXPECT_NEAR(boost::math::cdf(law, kMaxNis), 0.9750030135, 1e-9);
  EXPECT_NEAR(boost::math::quantile(law, 0.95), 5.991464547, 1e-9) << "what the label stands for";
}

TEST(SpecSection4_2, ChiSquareQuantilesOfTheVector) {
  const auto check = [](std::string_view, const element& in, const element& expected) {
    const auto q = flat(expected["q"]);
    std::size_t i = 0;
    for (const double p : flat(in["p"])) {
      EXPECT_NEAR(boost::math::quantile(boost::math::chi_squared(2), p), q.at(i++), 1e-9);
    }
    EXPECT_NEAR(boost::math::cdf(boost::math::chi_squared(2), kMaxNis),
                double(expected["p_of_7_378"]), 1e-9);
  };
  if (!testing::for_each_shared_vector("chi-square", check)) {
    GTEST_SKIP() << "no shared vectors; set TAILRACE_SHARED";
  }
}

TEST(KalmanStep, DefaultBoundsAreAHundredthAndAHundredTimesTheDefaultStart) {
  const auto bounds = KalmanBounds::defaults();
  const KalmanState low{0.05, 5e-4, 5e-7}, high{500, 5, 5e-3};
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(bounds.low[j], low[j], 1e-12 * low[j]);
    EXPECT_NEAR(bounds.high[j], high[j], 1e-12 * high[j]);
  }
}

TEST(KalmanStep, AStateOutsideTheBoundsStartsAtThem) {
  const KalmanState x{10, 5, 1};
  const auto noise = KalmanNoise::of(x, {10, 5});
  const auto step =
      kalman_step(x, noise.process, noise, {{1, 1, 1}, {8, 9, 9}}, {8, 5}, kAlphaAndBeta);
  EXPECT_DOUBLE_EQ(step.predicted[0], 8);
}

TEST(KalmanStep, AParameterOfZeroIsVariedByAHundredth) {
  const KalmanState x{0, 5, 1};
  std::vector<double> asked;
  const auto predict = [&](const KalmanState& at) {
    asked.push_back(at[0]);
    return std::optional(KalmanMeasurement{at[0] + 10, at[1]});
  };
  const auto noise = KalmanNoise::of(x, {10, 5});
  kalman_step(x, noise.process, noise, {{-1, -1, -1}, {9, 9, 9}}, {10, 5}, predict);
  EXPECT_NE(std::find(asked.begin(), asked.end(), 0.01), asked.end());
  EXPECT_NE(std::find(asked.begin(), asked.end(), -0.01), asked.end());
}

TEST(KalmanStep, NoAnswerAtTheStateOrBesideItIsAVerdict) {
  EXPECT_EQ(step_to({10, 5}, [](const KalmanState&) { return std::nullopt; }).verdict,
            KalmanVerdict::kNoPrediction);
  const auto narrow = [](const KalmanState& x) -> std::optional<KalmanMeasurement> {
    if (x[2] > 1.005) return std::nullopt;
    return KalmanMeasurement{x[0], x[1]};
  };
  EXPECT_EQ(step_to({10, 5}, narrow).verdict, KalmanVerdict::kNoJacobian);
}

TEST(KalmanStep, ASingularOrInfiniteInnovationCovarianceIsRejectedWithoutNis) {
  KalmanNoise silent;
  const auto deaf = [](const KalmanState&) { return std::optional(KalmanMeasurement{1, 1}); };
  const auto singular = kalman_step({10, 5, 1}, {}, silent, kWide, {1, 2}, deaf);
  EXPECT_EQ(singular.verdict, KalmanVerdict::kSingular);
  EXPECT_FALSE(singular.nis);
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(step_to({huge, huge}).verdict, KalmanVerdict::kSingular);
}

TEST(KalmanStep, StoredCovarianceMustBeSymmetric) {
  EXPECT_TRUE(is_symmetric({1, 2, 3, 2, 1, 4, 3, 4, 1}));
  EXPECT_TRUE(is_symmetric({1, 2, 3, 2 * (1 + 1e-6), 1, 4, 3, 4, 1}));
  EXPECT_FALSE(is_symmetric({1, 2, 3, 2 * (1 + 3e-6), 1, 4, 3, 4, 1}));
  EXPECT_FALSE(is_symmetric({1, 0, 3, 1e-300, 1, 4, 3, 4, 1})) << "beside an exact 0 only a 0";
}

TEST(KalmanStep, TheChainsTtftIsWaitAndPrefillWithoutADecodeStep) {
  // Vector F6: wait 0.0752, prefill 64.495, ITL 33.3285; the chain's own TTFT is their sum.
  queueing::ServiceModel model;
  model.mode = queueing::Mode::kChain;
  model.iteration = {.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 0.0005};
  model.limits = {.max_num_seqs = 64, .max_queue = 128};
  const auto z = kalman_prediction(model, queueing::Workload::of(0.5, 2048, 1024));
  ASSERT_TRUE(z);
  EXPECT_NEAR((*z)[0], 64.57048971, 1e-7);
  EXPECT_NEAR((*z)[1], 33.32851572, 1e-7);
  EXPECT_FALSE(kalman_prediction(model, queueing::Workload::of(0.67, 2048, 1024)))
      << "above the largest rate there is no answer";
}

}  // namespace
}  // namespace tailrace::tune
