// P-values that are right although the parameters were fitted to the same lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "length/goodness_tables.h"
#include "tailrace/length/goodness.h"
#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

constexpr Family kTabulated[] = {Family::kLogT, Family::kLogNormal, Family::kWeibull,
                                 Family::kExponential};

LengthLaw some_law(Family family) {
  switch (family) {
    case Family::kLogT:
      return LengthLaw::log_t(5, 0.7).value();
    case Family::kLogNormal:
      return LengthLaw::log_normal(6, 0.4).value();
    case Family::kWeibull:
      return LengthLaw::weibull(1.7, 300).value();
    default:
      return LengthLaw::exponential(120).value();
  }
}

LengthSample draw(const LengthLaw& law, int n, Rng& rng) {
  LengthSample out{"drawn", {}, std::nullopt};
  for (int i = 0; i < n; ++i) out.lengths.push_back(sample(law, rng));
  return out;
}

double ks_p(Family family, double d, std::size_t n) {
  return ks_p_value_fitted(family, 3.5, d, n).value();
}
double ad_p(Family family, double a2, std::size_t n) {
  return ad_p_value_fitted(family, 3.5, a2, n).value();
}

/// How far p-values are from uniform: the distance of their sample from the unit law, times √n.
double distance_from_uniform(std::vector<double> p) {
  std::sort(p.begin(), p.end());
  const auto n = static_cast<double>(p.size());
  double distance = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto before = static_cast<double>(i);
    distance = std::max({distance, p[i] - before / n, (before + 1) / n - p[i]});
  }
  return distance * std::sqrt(n);
}

// Lilliefors (1967, 1969), as recomputed since. He divides the variance by n − 1 where maximum
// likelihood divides by n, which moves p by less than the tolerance.
TEST(FittedPValue, AgreesWithLilliefors) {
  EXPECT_NEAR(ks_p(Family::kLogNormal, 0.192, 20), 0.05, 0.008);
  EXPECT_NEAR(ks_p(Family::kLogNormal, 0.1246, 50), 0.05, 0.005);
  EXPECT_NEAR(ks_p(Family::kExponential, 0.234, 20), 0.05, 0.003);
  EXPECT_NEAR(ks_p(Family::kExponential, 0.325, 10), 0.05, 0.003);
}

// The percentage points of Stephens (1974, 1977) with his corrections for n: parameters fitted,
// upper tail 10 %, 5 % and 1 %. His points rest on 10,000 samples or so, and his corrections are
// fitted to them: two digits.
TEST(FittedPValue, AgreesWithStephens) {
  struct Point {
    double p, normal_d, normal_a2, extreme_a2, exponential_d, exponential_a2;
  };
  for (const Point& at : {Point{0.10, 0.819, 0.631, 0.637, 0.990, 1.062},
                          Point{0.05, 0.895, 0.752, 0.757, 1.094, 1.321},
                          Point{0.01, 1.035, 1.035, 1.038, 1.308, 1.959}}) {
    for (const std::size_t count : {50UL, 200UL, 1000UL, 100'000UL}) {
      const auto n = static_cast<double>(count);
      const double root = std::sqrt(n);
      const double allowed = (at.p < 0.05 ? 0.2 : 0.1) * at.p;
      if (count <= 200) {  // where his form for D was found; it drifts for larger samples
        EXPECT_NEAR(ks_p(Family::kLogNormal, at.normal_d / (root - 0.01 + 0.85 / root), count),
                    at.p, allowed);
      }
      EXPECT_NEAR(ad_p(Family::kLogNormal, at.normal_a2 / (1 + 0.75 / n + 2.25 / n / n), count),
                  at.p, allowed);
      EXPECT_NEAR(ad_p(Family::kWeibull, at.extreme_a2 / (1 + 0.2 / root), count), at.p, allowed);
      EXPECT_NEAR(ks_p(Family::kExponential,
                       at.exponential_d / (root + 0.26 + 0.5 / root) + 0.2 / n, count),
                  at.p, allowed);
      EXPECT_NEAR(ad_p(Family::kExponential, at.exponential_a2 / (1 + 0.6 / n), count), at.p,
                  allowed);
    }
  }
}

TEST(FittedPValue, IsUniformWhereTheFamilyIsRight) {
  constexpr int kSamples = 2000;
  constexpr double kOneInThousand = 1.95;  // of the limit law of √n·D
  for (const Family family : kTabulated) {
    for (const int n : {20, 100}) {
      const LengthLaw law = some_law(family);
      Rng rng = Rng(31).fork(family_name(family));
      std::vector<double> ks, ad;
      for (int i = 0; i < kSamples; ++i) {
        const LengthSample drawn = draw(law, n, rng);
        const LengthLaw fitted = fit_family(family, drawn).value().law.value();
        ks.push_back(ks_p(family, ks_distance(drawn, fitted), drawn.lengths.size()));
        ad.push_back(ad_p(family, ad_distance(drawn, fitted), drawn.lengths.size()));
      }
      EXPECT_LT(distance_from_uniform(ks), kOneInThousand) << family_name(family) << ' ' << n;
      EXPECT_LT(distance_from_uniform(ad), kOneInThousand) << family_name(family) << ' ' << n;
    }
  }
}

TEST(FittedPValue, IsSmallWhereTheFamilyIsWrong) {
  const LengthLaw two_modes = LengthLaw::mixture(0.5, LengthLaw::log_normal(4, 0.2).value(),
                                                 LengthLaw::log_normal(6, 0.2).value())
                                  .value();
  Rng rng(32);
  const LengthSample drawn = draw(two_modes, 100, rng);
  for (const Family family : kTabulated) {
    const LengthLaw fitted = fit_family(family, drawn).value().law.value();
    EXPECT_LE(ks_p(family, ks_distance(drawn, fitted), 100), 0.0011) << family_name(family);
    EXPECT_LE(ad_p(family, ad_distance(drawn, fitted), 100), 0.0011) << family_name(family);
  }
}

TEST(FittedPValue, IsHarsherThanTheNaiveOne) {
  for (const Family family : kTabulated) {
    for (const std::size_t n : {5UL, 20UL, 100UL, 1000UL}) {
      const double d = 0.9 / std::sqrt(static_cast<double>(n));
      EXPECT_LT(ks_p(family, d, n), ks_p_value(d, n)) << family_name(family) << ' ' << n;
    }
  }
}

TEST(FittedPValue, FallsAsTheDistanceGrowsForEveryCount) {
  for (const Family family : kTabulated) {
    for (const Statistic statistic : {Statistic::kKs, Statistic::kAd}) {
      const NullTable& table = *null_table(family, statistic);
      for (std::size_t n = kNullLeastCount; n < 5000; n += 1 + n / 50) {
        for (std::size_t node = 1; node < kNullNodes; ++node) {
          ASSERT_LT(null_quantile(table, node - 1, n), null_quantile(table, node, n))
              << family_name(family) << ' ' << n << ' ' << node;
        }
      }
    }
  }
  EXPECT_NEAR(ks_p(Family::kLogT, 0, 20), 0.999, 1e-12);
  EXPECT_NEAR(ks_p(Family::kLogT, 1, 20), 0.001, 1e-12);
}

TEST(FittedPValue, IsNothingWhereNoTableIsRight) {
  for (const Family family : {Family::kGamma, Family::kLomax, Family::kBinned, Family::kMixture}) {
    EXPECT_FALSE(ks_p_value_fitted(family, 3.5, 0.1, 50));
    EXPECT_FALSE(ad_p_value_fitted(family, 3.5, 0.5, 50));
  }
  EXPECT_FALSE(ks_p_value_fitted(Family::kLogT, 4, 0.1, 50));
  EXPECT_FALSE(ks_p_value_fitted(Family::kLogT, std::nullopt, 0.1, 50));  // nu was fitted too
  EXPECT_TRUE(ks_p_value_fitted(Family::kLogNormal, std::nullopt, 0.1, 50));
  EXPECT_FALSE(ad_p_value_fitted(Family::kLogNormal, 3.5, 0.5, 4));
}

}  // namespace
}  // namespace tailrace::length
