#include "tailrace/length/sample_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

constexpr Family kAll[] = {Family::kLogT,    Family::kLogNormal,   Family::kGamma,
                           Family::kWeibull, Family::kExponential, Family::kLomax};

LengthSample answers(int n, std::optional<double> cap = std::nullopt) {
  const LengthLaw law = LengthLaw::log_t(5, 0.6).value();
  Rng rng(51);
  LengthSample out{"prompt", {}, cap};
  for (int i = 0; i < n; ++i) {
    const double length = std::ceil(sample(law, rng));
    out.lengths.push_back(cap ? std::min(length, *cap) : length);
  }
  return out;
}

TEST(SampleFit, MeasuresEveryFamilyInTheOrderAskedFor) {
  const LengthSample sample = answers(60);
  const SampleFit fit = fit_sample(sample, kAll, {}, 0, Rng(1)).value();
  EXPECT_EQ(fit.id, "prompt");
  EXPECT_EQ(fit.shape.n, 60u);
  EXPECT_FALSE(fit.degenerate);
  ASSERT_EQ(fit.fits.size(), std::size(kAll));
  for (std::size_t i = 0; i < fit.fits.size(); ++i) {
    const FittedFamily& family = fit.fits[i];
    EXPECT_EQ(family.fit.family, kAll[i]);
    if (!family.fit.law) continue;
    EXPECT_EQ(family.ks_d.value(), ks_distance(sample, *family.fit.law));
    EXPECT_EQ(family.ks_p.value(), ks_p_value(*family.ks_d, 60));
    EXPECT_EQ(family.ad.value(), ad_distance(sample, *family.fit.law));
    EXPECT_FALSE(family.by_bootstrap);
    const bool tabulated = kAll[i] != Family::kGamma && kAll[i] != Family::kLomax;
    EXPECT_EQ(family.ks_p_fitted.has_value(), tabulated) << family_name(kAll[i]);
    EXPECT_EQ(family.ad_p_fitted.has_value(), tabulated) << family_name(kAll[i]);
  }
  EXPECT_TRUE(fit.fits[0].fit.law);
}

TEST(SampleFit, GivesEveryFamilyAFittedPValueByBootstrap) {
  const SampleFit fit = fit_sample(answers(40), kAll, {}, 50, Rng(1)).value();
  for (const FittedFamily& family : fit.fits) {
    if (!family.fit.law) continue;
    EXPECT_TRUE(family.by_bootstrap) << family_name(family.fit.family);
    EXPECT_GT(family.ks_p_fitted.value(), 0);
  }
}

TEST(SampleFit, BootstrapsAFamilyAlikeWhateverElseIsAskedFor) {
  const Family alone[] = {Family::kWeibull};
  const SampleFit all = fit_sample(answers(40), kAll, {}, 50, Rng(1)).value();
  const SampleFit one = fit_sample(answers(40), alone, {}, 50, Rng(1)).value();
  EXPECT_EQ(one.fits[0].ks_p_fitted.value(), all.fits[3].ks_p_fitted.value());
  EXPECT_EQ(one.fits[0].ad_p_fitted.value(), all.fits[3].ad_p_fitted.value());
}

TEST(SampleFit, HasNoTabulatedPValueForCensoredOrFreeNuFits) {
  const Family log_t[] = {Family::kLogT};
  const SampleFit censored = fit_sample(answers(60, 150), log_t, {}, 0, Rng(1)).value();
  ASSERT_GT(censored.shape.n_capped, 0u);
  EXPECT_TRUE(censored.fits[0].ks_p);
  EXPECT_FALSE(censored.fits[0].ks_p_fitted);
  EXPECT_FALSE(censored.fits[0].ad_p_fitted);
  FitOptions free;
  free.nu = std::nullopt;
  EXPECT_FALSE(fit_sample(answers(60), log_t, free, 0, Rng(1)).value().fits[0].ks_p_fitted);
}

TEST(SampleFit, ReportsAnAtomAsDegenerateAndFitsWhatCanBeFitted) {
  LengthSample sample{"atom", std::vector<double>(16, 2048), std::nullopt};
  for (const double other : {1384.0, 1281.0, 1216.0, 1057.0}) sample.lengths.push_back(other);
  const SampleFit fit = fit_sample(sample, kAll, {}, 20, Rng(1)).value();
  EXPECT_TRUE(fit.degenerate);
  EXPECT_FALSE(fit.fits[0].fit.law);
  EXPECT_FALSE(fit.fits[0].ks_d);
  EXPECT_TRUE(fit.fits[1].ks_d);
}

TEST(SampleFit, PutsBinsInTheirPlaceWithTheirLikelihoodAndNoFittedPValue) {
  const Family families[] = {Family::kBinned, Family::kLogT};
  const LengthSample cut = answers(60, 150);
  const SampleFit fit = fit_sample(cut, families, {}, 20, Rng(1)).value();
  ASSERT_EQ(fit.fits.size(), 2u);
  const FittedFamily& bins = fit.fits[0];
  ASSERT_EQ(bins.fit.family, Family::kBinned);
  EXPECT_EQ(fit.fits[1].fit.family, Family::kLogT);
  EXPECT_EQ(*bins.fit.law, fit_bins(cut).value());
  double loglik = 0;
  for (const double length : cut.lengths) {
    loglik += std::log(length == 150 ? bins.fit.law->survival(150) : bins.fit.law->density(length));
  }
  EXPECT_DOUBLE_EQ(bins.fit.loglik, loglik);
  EXPECT_GT(bins.fit.loglik, fit.fits[1].fit.loglik) << "a table follows the sample more closely";
  EXPECT_TRUE(std::isnan(bins.fit.aic) && std::isnan(bins.fit.bic));
  EXPECT_EQ(bins.ks_d.value(), ks_distance(cut, *bins.fit.law));
  EXPECT_FALSE(bins.ks_p_fitted || bins.ad_p_fitted || bins.by_bootstrap);
  EXPECT_TRUE(fit.fits[1].by_bootstrap);
}

TEST(SampleFit, IsDegenerateExactlyWhereLogTHasNoLaw) {
  const auto tied = [](std::size_t identical) {
    LengthSample sample{"tied", std::vector<double>(identical, 300), std::nullopt};
    for (const double other : {100.0, 150.0, 400.0, 700.0}) sample.lengths.push_back(other);
    return sample;
  };
  const LengthSample all_cut{"cut", std::vector<double>(12, 256), 256};
  const Family gamma[] = {Family::kGamma};
  // At nu = 3.5 the border is 14 of 18, where the supremum lies at sigma = 0.
  for (const auto& [sample, expected] :
       {std::pair{tied(13), false}, {tied(14), true}, {tied(15), true}, {all_cut, true}}) {
    SCOPED_TRACE(sample.lengths.size());
    const SampleFit fit = fit_sample(sample, kAll, {}, 0, Rng(1)).value();
    EXPECT_EQ(fit.degenerate, expected);
    EXPECT_EQ(fit.fits[0].fit.law.has_value(), !expected);
    EXPECT_EQ(fit_sample(sample, gamma, {}, 0, Rng(1)).value().degenerate, expected);
  }
  // Two equal atoms at nu = 1 are on the border too, and have a law.
  const LengthSample two{"two", {10, 1000}, std::nullopt};
  EXPECT_FALSE(fit_sample(two, kAll, {.nu = 1}, 0, Rng(1)).value().degenerate);
}

TEST(SampleFit, RefusesWhatCannotBeALength) {
  const LengthSample sample{"bad", {12, -3}, std::nullopt};
  const auto fit = fit_sample(sample, kAll, {}, 0, Rng(1));
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(fit.error().message.find("-3"), std::string::npos) << fit.error().message;
}

}  // namespace
}  // namespace tailrace::length
