#include "tailrace/length/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace tailrace::length {
namespace {

/// Every family, in plain and in awkward shapes.
std::vector<LengthLaw> laws() {
  const double edges[] = {1, 2, 7.5, 40, 41, 1000};
  const double masses[] = {0.1, 0, 0.2, 0.3, 0.05, 0.25, 0.1};
  const auto binned = LengthLaw::binned(edges, masses).value();
  const auto log_t = LengthLaw::log_t(5, 0.75).value();
  const auto gamma = LengthLaw::gamma(40, 2).value();
  return {log_t,
          LengthLaw::log_t(5, 0.2, 30).value(),
          LengthLaw::log_normal(6, 1.5).value(),
          LengthLaw::log_normal(6, 1e-6).value(),
          gamma,
          LengthLaw::gamma(0.3, 500).value(),
          LengthLaw::gamma(1, 500).value(),
          LengthLaw::gamma(1e9, 1e-6).value(),
          LengthLaw::weibull(0.5, 100).value(),
          LengthLaw::weibull(8, 100).value(),
          LengthLaw::exponential(120).value(),
          LengthLaw::lomax(1.2, 300).value(),
          LengthLaw::lomax(50, 9000).value(),
          binned,
          LengthLaw::mixture(0.3, log_t, gamma).value(),
          LengthLaw::mixture(0.9, gamma, binned).value()};
}

/// sup |F_n − F|.
double distance(const LengthLaw& law, std::vector<double> lengths) {
  std::sort(lengths.begin(), lengths.end());
  const auto n = static_cast<double>(lengths.size());
  double d = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double below = 1 - law.survival(lengths[i]);
    const auto rank = static_cast<double>(i);
    d = std::max({d, below - rank / n, (rank + 1) / n - below});
  }
  return d;
}

TEST(Sample, FollowsTheLawOfEveryFamily) {
  constexpr int kDraws = 40'000;
  // Exceeded by a right generator once in 100,000 laws; the seed is fixed.
  const double most = 2.47 / std::sqrt(kDraws);
  Rng rng(20'260'101);
  for (const LengthLaw& law : laws()) {
    std::vector<double> lengths(kDraws);
    for (double& x : lengths) x = sample(law, rng);
    EXPECT_LT(distance(law, lengths), most) << law.describe();
  }
}

TEST(Sample, SameSeedSameLengths) {
  for (const LengthLaw& law : laws()) {
    Rng a(7), b(7), c(8);
    bool differs = false;
    for (int i = 0; i < 100; ++i) {
      const double drawn = sample(law, a);
      ASSERT_EQ(drawn, sample(law, b)) << law.describe();
      differs = differs || drawn != sample(law, c);
    }
    EXPECT_TRUE(differs) << law.describe();
  }
}

TEST(Sample, IsFiniteAndPositiveWhateverTheLaw) {
  const LengthLaw extremes[] = {
      LengthLaw::log_t(700, 1e300, 0.1).value(), LengthLaw::log_t(-700, 1e-300, 0.1).value(),
      LengthLaw::log_normal(700, 1e300).value(), LengthLaw::gamma(1e-6, 1e-290).value(),
      LengthLaw::gamma(1e12, 1e290).value(),     LengthLaw::weibull(1e-6, 1e290).value(),
      LengthLaw::weibull(1e12, 1e290).value(),   LengthLaw::lomax(1e-6, 1e290).value(),
      LengthLaw::exponential(1e290).value()};
  Rng rng(3);
  for (const LengthLaw& law : extremes) {
    for (int i = 0; i < 2000; ++i) {
      const double drawn = sample(law, rng);
      ASSERT_TRUE(drawn > 0 && std::isfinite(drawn)) << law.describe() << ": " << drawn;
    }
  }
}

TEST(Sample, NeverDrawsFromBinsWithoutMass) {
  const double edges[] = {10, 20, 30};
  const double masses[] = {0, 1, 0, 0};
  const auto law = LengthLaw::binned(edges, masses).value();
  Rng rng(5);
  for (int i = 0; i < 10'000; ++i) {
    const double drawn = sample(law, rng);
    ASSERT_TRUE(drawn >= 10 && drawn <= 20) << drawn;
  }
}

}  // namespace
}  // namespace tailrace::length
