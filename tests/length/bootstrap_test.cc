#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/length/goodness.h"
#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

LengthSample draw(const LengthLaw& law, int n, Rng& rng, bool whole = false,
                  std::optional<double> cap = std::nullopt) {
  LengthSample out{"drawn", {}, cap};
  for (int i = 0; i < n; ++i) {
    double length = sample(law, rng);
    if (whole) length = std::ceil(length);
    out.lengths.push_back(cap ? std::min(length, *cap) : length);
  }
  return out;
}

/// Of many samples from the law, the share whose p-values fall below 10 %.
struct Rejected {
  double ks_bootstrap = 0, ad_bootstrap = 0, ks_table = 0;
};
Rejected rejected_at_a_tenth(Family family, const LengthLaw& law, int n, bool whole,
                             std::optional<double> cap) {
  constexpr int kSamples = 300;
  Rng rng(41);
  Rejected share;
  for (int i = 0; i < kSamples; ++i) {
    const LengthSample drawn = draw(law, n, rng, whole, cap);
    const FamilyFit fit = fit_family(family, drawn).value();
    const auto p = bootstrap_p_values(drawn, fit, {}, 99, rng.fork(std::to_string(i)));
    if (!p) {
      ADD_FAILURE() << "no p-values for sample " << i;
      return share;
    }
    share.ks_bootstrap += (p->ks <= 0.1) / double{kSamples};
    share.ad_bootstrap += (p->ad <= 0.1) / double{kSamples};
    const auto table =
        ks_p_value_fitted(family, 3.5, ks_distance(drawn, *fit.law), drawn.lengths.size());
    if (table) share.ks_table += (*table <= 0.1) / double{kSamples};
  }
  return share;
}

// Four standard errors of a share of 300 at 10 %.
constexpr double kAllowed = 0.07;

TEST(Bootstrap, IsRightForShortWholeLengthsWhereTheTableIsTooHarsh) {
  const Rejected share = rejected_at_a_tenth(
      Family::kLogNormal, LengthLaw::log_normal(1.6, 0.5).value(), 40, true, std::nullopt);
  EXPECT_NEAR(share.ks_bootstrap, 0.1, kAllowed);
  EXPECT_NEAR(share.ad_bootstrap, 0.1, kAllowed);
  EXPECT_GT(share.ks_table, 0.3);
}

TEST(Bootstrap, IsRightForFamiliesWithoutATable) {
  const Rejected share =
      rejected_at_a_tenth(Family::kGamma, LengthLaw::gamma(2, 80).value(), 30, false, std::nullopt);
  EXPECT_NEAR(share.ks_bootstrap, 0.1, kAllowed);
  EXPECT_NEAR(share.ad_bootstrap, 0.1, kAllowed);
}

TEST(Bootstrap, IsRightForCensoredSamples) {
  const LengthLaw law = LengthLaw::log_t(5, 0.6).value();
  const Rejected share =
      rejected_at_a_tenth(Family::kLogT, law, 40, true, std::ceil(law.quantile(0.7)));
  EXPECT_NEAR(share.ks_bootstrap, 0.1, kAllowed);
  EXPECT_NEAR(share.ad_bootstrap, 0.1, kAllowed);
}

TEST(Bootstrap, AgreesWithTheTableOnContinuousSamples) {
  Rng rng(42);
  for (int i = 0; i < 5; ++i) {
    const LengthSample drawn = draw(LengthLaw::log_t(5, 0.6).value(), 50, rng);
    const FamilyFit fit = fit_family(Family::kLogT, drawn).value();
    const auto p = bootstrap_p_values(drawn, fit, {}, 2000, rng.fork("bootstrap")).value();
    const double ks = ks_distance(drawn, *fit.law);
    const double ad = ad_distance(drawn, *fit.law);
    EXPECT_NEAR(p.ks, ks_p_value_fitted(Family::kLogT, 3.5, ks, 50).value(), 0.045);
    EXPECT_NEAR(p.ad, ad_p_value_fitted(Family::kLogT, 3.5, ad, 50).value(), 0.045);
  }
}

TEST(Bootstrap, IsNeverZeroAndRejectsTwoModes) {
  Rng rng(43);
  const LengthLaw two_modes = LengthLaw::mixture(0.5, LengthLaw::log_normal(4, 0.1).value(),
                                                 LengthLaw::log_normal(6, 0.1).value())
                                  .value();
  const LengthSample drawn = draw(two_modes, 100, rng, true);
  const FamilyFit fit = fit_family(Family::kGamma, drawn).value();
  const auto p = bootstrap_p_values(drawn, fit, {}, 199, rng).value();
  EXPECT_DOUBLE_EQ(p.ks, 1.0 / 200);
  EXPECT_DOUBLE_EQ(p.ad, 1.0 / 200);
}

TEST(Bootstrap, GivesTheSameAnswerForTheSameSeed) {
  Rng rng(44);
  const LengthSample drawn = draw(LengthLaw::weibull(1.2, 90).value(), 25, rng, true);
  const FamilyFit fit = fit_family(Family::kWeibull, drawn).value();
  const auto first = bootstrap_p_values(drawn, fit, {}, 100, Rng(7)).value();
  const auto again = bootstrap_p_values(drawn, fit, {}, 100, Rng(7)).value();
  EXPECT_EQ(first.ks, again.ks);
  EXPECT_EQ(first.ad, again.ad);
}

TEST(Bootstrap, IsNothingWhereThereIsNoLawOrItsSamplesHaveNone) {
  const LengthSample constant{"constant", std::vector<double>(20, 50), std::nullopt};
  const FamilyFit none = fit_family(Family::kLogT, constant).value();
  ASSERT_FALSE(none.law);
  EXPECT_FALSE(bootstrap_p_values(constant, none, {}, 50, Rng(1)));
  // So narrow that whole tokens are all alike, whatever is drawn.
  FamilyFit narrow = none;
  narrow.law = LengthLaw::log_t(std::log(50.5), 1e-6).value();
  EXPECT_FALSE(bootstrap_p_values(constant, narrow, {}, 50, Rng(1)));
}

}  // namespace
}  // namespace tailrace::length
