#include "predict/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

/// Judges `count` answers whose true law is (mu, true_sigma) with mu spread over requests, while
/// the predictor says (mu + bias, said_sigma).
void feed(Calibration& calibration, Rng& rng, int count, double true_sigma, double said_sigma,
          double bias, double spread = 1.0) {
  for (int i = 0; i < count; ++i) {
    const double mu = 5 + spread * rng.normal();
    const double y = mu + true_sigma * rng.student_t(3.5);
    calibration.judge({mu + bias, std::log(said_sigma)}, y, false);
  }
}

TEST(Calibration, WidensAnOverconfidentSigma) {
  Calibration calibration(100);
  Rng rng(1);
  feed(calibration, rng, 3000, 0.6, 0.2, 0);
  EXPECT_NEAR(calibration.correct({5, std::log(0.2)}).log_sigma, std::log(0.6), 0.15);
  EXPECT_NEAR(calibration.coverage(), 0.8, 0.05);
  EXPECT_TRUE(calibration.trusted());
}

TEST(Calibration, NarrowsATimidSigmaAndTakesOutABias) {
  Calibration calibration(100);
  Rng rng(2);
  feed(calibration, rng, 3000, 0.3, 1.0, -0.5);
  const Law law = calibration.correct({5, 0});
  EXPECT_NEAR(law.log_sigma, std::log(0.3), 0.15);
  EXPECT_NEAR(law.mu, 5.5, 0.06);
  EXPECT_TRUE(calibration.trusted());
}

TEST(Calibration, CountsCutAnswersByWhatTheyTell) {
  Calibration calibration(100);
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    const double mu = 5 + rng.normal();
    const double y = mu + 0.5 * rng.student_t(3.5);
    const double cut = 5 + 1.5 * rng.normal();
    calibration.judge({mu, std::log(0.5)}, std::min(y, cut), y > cut);
  }
  const Law law = calibration.correct({5, std::log(0.5)});
  EXPECT_NEAR(law.mu, 5, 0.08);
  EXPECT_NEAR(law.log_sigma, std::log(0.5), 0.15);
  EXPECT_NEAR(calibration.coverage(), 0.8, 0.05);
}

TEST(Calibration, ConcordanceOfTheWindowIsThatOfACountFromScratch) {
  Calibration calibration(100);
  Rng rng(4);
  struct Pair {
    float mu, y;
  };
  std::vector<Pair> seen;
  for (int i = 0; i < 2000; ++i) {
    const double mu = std::round(4 * rng.normal()) / 4;  // with ties
    const double y = mu + rng.normal();
    const Law corrected = calibration.correct({mu, 0});
    seen.push_back({static_cast<float>(corrected.mu), static_cast<float>(y)});
    calibration.judge({mu, 0}, y, false);
  }
  double wins = 0;
  double pairs = 0;
  for (std::size_t a = seen.size() - Calibration::kWindow; a < seen.size(); ++a) {
    for (std::size_t b = seen.size() - Calibration::kWindow; b < a; ++b) {
      pairs += 1;
      const float said = (seen[a].mu - seen[b].mu) * (seen[a].y > seen[b].y ? 1.0F : -1.0F);
      wins += said > 0 ? 1 : said < 0 ? 0 : 0.5;
    }
  }
  EXPECT_NEAR(calibration.concordance(), wins / pairs, 1e-12);
}

TEST(Calibration, WithoutSkillThereIsNoTrust) {
  int trusted = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Calibration calibration(100);
    Rng rng(seed);
    for (int i = 0; i < 1000; ++i) {
      calibration.judge({5 + 0.5 * rng.normal(), 0}, 5 + rng.student_t(3.5), false);
      trusted += calibration.trusted() ? 1 : 0;
    }
  }
  EXPECT_LE(trusted, 40 * 1000 / 100);
}

TEST(Calibration, TrustGoesWhenCoverageBreaksAndComesBack) {
  Calibration calibration(100);
  Rng rng(5);
  feed(calibration, rng, 600, 0.3, 0.3, 0);
  EXPECT_TRUE(calibration.trusted());
  feed(calibration, rng, 150, 0.3, 0.3, 3.0);  // suddenly e³ too long
  EXPECT_FALSE(calibration.trusted());
  feed(calibration, rng, 1500, 0.3, 0.3, 0);
  EXPECT_TRUE(calibration.trusted());
}

}  // namespace
}  // namespace tailrace::predict
