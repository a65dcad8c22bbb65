#include "tailrace/length/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "length/support/fit_vectors.h"
#include "length/support/reference.h"
#include "tailrace/core/rng.h"
#include "tailrace/length/binned.h"

namespace tailrace::length {
namespace {

using testing::KnownFit;
using testing::loglik_of;
using testing::relative_error;
using testing::shared_mle_vectors;

const FitOptions kFreeNu{.nu = {}, .nu_min = 1, .nu_max = 200};

FamilyFit fit(Family family, const LengthSample& sample, const FitOptions& options = {}) {
  auto result = fit_family(family, sample, options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? *result : FamilyFit{};
}

double parameter(const FamilyFit& fit, std::string_view name) {
  for (const Parameter& p : fit.law.value().parameters()) {
    if (p.name == name) return p.value;
  }
  ADD_FAILURE() << "no parameter " << name;
  return 0;
}

LengthSample repeated(double value, int times, std::vector<double> others,
                      std::optional<double> cap = {}) {
  for (int i = 0; i < times; ++i) others.push_back(value);
  return {"repeated", std::move(others), cap};
}

// ---- reference vectors --------------------------------------------------------------------------

TEST(FitVectors, FixedNuAgrees) {
  const auto vectors = shared_mle_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const KnownFit& row : vectors->fits) {
    if (row.fit != "fixed_nu") continue;
    SCOPED_TRACE(row.sample.id);
    const FamilyFit found = fit(Family::kLogT, row.sample);
    EXPECT_NEAR(parameter(found, "mu"), row.numbers.at("mu"), 1e-8);
    EXPECT_NEAR(parameter(found, "sigma"), row.numbers.at("sigma"), 1e-8);
    EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 1e-8);
    EXPECT_EQ(found.parameters, 2);
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(FitVectors, CensoredFixedNuAgrees) {
  const auto vectors = shared_mle_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const KnownFit& row : vectors->fits) {
    if (row.fit != "censored_fixed_nu") continue;
    SCOPED_TRACE(row.sample.id);
    const FamilyFit found = fit(Family::kLogT, row.sample);
    // These are printed to eight digits.
    EXPECT_NEAR(parameter(found, "mu"), row.numbers.at("mu"), 6e-8);
    EXPECT_NEAR(parameter(found, "sigma"), row.numbers.at("sigma"), 1e-8);
    EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 6e-8);
    ++seen;
  }
  EXPECT_GE(seen, 2);
}

TEST(FitVectors, FreeNuAgreesAndBoundsAreSaid) {
  const auto vectors = shared_mle_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  int bounds = 0;
  for (const KnownFit& row : vectors->fits) {
    if (row.fit != "free_nu") continue;
    SCOPED_TRACE(row.sample.id);
    const FamilyFit found = fit(Family::kLogT, row.sample, kFreeNu);
    EXPECT_LT(relative_error(parameter(found, "nu"), row.numbers.at("nu")), 1e-4);
    EXPECT_NEAR(parameter(found, "mu"), row.numbers.at("mu"), 1e-5);
    EXPECT_NEAR(parameter(found, "sigma"), row.numbers.at("sigma"), 1e-5);
    EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 1e-8);
    EXPECT_EQ(found.at_bound, row.at_bound);
    EXPECT_EQ(found.parameters, 3);
    if (row.at_bound) ++bounds;
  }
  EXPECT_GE(bounds, 1);
}

TEST(FitVectors, LogNormalAgrees) {
  const auto vectors = shared_mle_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  int seen = 0;
  for (const KnownFit& row : vectors->fits) {
    if (row.fit != "lognormal") continue;
    SCOPED_TRACE(row.sample.id);
    const FamilyFit found = fit(Family::kLogNormal, row.sample);
    EXPECT_NEAR(parameter(found, "mu"), row.numbers.at("mu"), 1e-8);
    EXPECT_NEAR(parameter(found, "sigma"), row.numbers.at("sigma_ml"), 1e-8);
    EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 1e-8);
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(FitVectors, ProperMaximaJustShortOfDegeneracyAgree) {
  const auto vectors = shared_mle_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_EQ(vectors->near_degenerate.size(), 2u);
  for (const KnownFit& row : vectors->near_degenerate) {
    const FamilyFit found = fit(Family::kLogT, row.sample);
    ASSERT_TRUE(found.law);
    EXPECT_NEAR(parameter(found, "mu"), row.numbers.at("mu"), 1e-8);
    EXPECT_NEAR(parameter(found, "sigma"), row.numbers.at("sigma"), 1e-8);
  }
}

// ---- samples without a maximum ------------------------------------------------------------------

TEST(FitDegenerate, LogTIsBySixteenOfTwentyButNotByFifteen) {
  const LengthSample sixteen = repeated(2048, 16, {1384, 1281, 1216, 1057});
  const LengthSample fifteen = repeated(2048, 15, {1384, 1281, 1216, 1057, 900});
  EXPECT_TRUE(log_t_degenerate(sixteen, 3.5));
  EXPECT_FALSE(log_t_degenerate(fifteen, 3.5));
  const FamilyFit none = fit(Family::kLogT, sixteen);
  EXPECT_FALSE(none.law);
  EXPECT_TRUE(none.degenerate.starts_with("16 of 20 lengths are 2048 tokens: ")) << none.degenerate;
  const FamilyFit proper = fit(Family::kLogT, fifteen);
  EXPECT_TRUE(proper.degenerate.empty());
  EXPECT_NEAR(parameter(proper, "sigma"), 0.1135867829, 1e-8);
}

TEST(FitDegenerate, TheCriterionIsExactForAnyNu) {
  // 12 of 16 identical: k/n = 3/4 = nu/(nu + 1) at nu = 3, where the likelihood stays bounded but
  // its supremum lies at sigma = 0.
  const LengthSample sample = repeated(100, 12, {50, 70, 150, 300});
  EXPECT_TRUE(log_t_degenerate(sample, 2.999));
  EXPECT_FALSE(log_t_degenerate(sample, 3));
  EXPECT_FALSE(fit(Family::kLogT, sample, {.nu = 2.999}).law);
  const FamilyFit edge = fit(Family::kLogT, sample, {.nu = 3});
  EXPECT_FALSE(edge.law);
  EXPECT_NE(edge.degenerate.find("exactly nu/(nu + 1)"), std::string::npos) << edge.degenerate;
  const FamilyFit proper = fit(Family::kLogT, sample, {.nu = 3.001});
  ASSERT_TRUE(proper.law);
  EXPECT_GT(parameter(proper, "sigma"), 0);
  EXPECT_LT(parameter(proper, "sigma"), 0.02);
}

TEST(FitDegenerate, CensoredLengthsCountAmongAllButNotAsIdentical) {
  // Sixteen at the cap are no atom; sixteen of twenty below it are, whatever cut the others.
  EXPECT_FALSE(log_t_degenerate(repeated(2048, 16, {1384, 1281, 1216, 1057}, 2048), 3.5));
  const FamilyFit mostly_cut =
      fit(Family::kLogT, repeated(2048, 16, {1384, 1281, 1216, 1057}, 2048));
  ASSERT_TRUE(mostly_cut.law);
  EXPECT_GT(mostly_cut.law->survival(2048), 0.6);

  const LengthSample atom_below = repeated(300, 16, {2048, 2048, 2048, 2048}, 2048);
  EXPECT_TRUE(log_t_degenerate(atom_below, 3.5));
  EXPECT_FALSE(fit(Family::kLogT, atom_below).law);
  const FamilyFit with_five_cut =
      fit(Family::kLogT, repeated(300, 15, {2048, 2048, 2048, 2048, 2048}, 2048));
  ASSERT_TRUE(with_five_cut.law);
  EXPECT_GT(parameter(with_five_cut, "sigma"), 0);
}

TEST(FitDegenerate, FreeNuIsUnboundedWhenMoreThanHalfAreIdentical) {
  // Unbounded for nu < k/(n − k) = 2.33: within [1, 200], but not within [2.5, 200].
  const LengthSample sample = repeated(2048, 14, {1384, 1281, 1216, 1057, 900, 1700});
  const FamilyFit none = fit(Family::kLogT, sample, kFreeNu);
  EXPECT_FALSE(none.law);
  EXPECT_NE(none.degenerate.find("every nu below 2.333"), std::string::npos) << none.degenerate;
  FitOptions above = kFreeNu;
  above.nu_min = 2.5;
  ASSERT_TRUE(fit(Family::kLogT, sample, above).law);
}

TEST(FitDegenerate, FreeNuWithExactlyHalfIdenticalIsJudgedByItsProfile) {
  // Two clusters: the maximum is elsewhere. One atom among far values: only nu = 1, sigma = 0.
  const FamilyFit clusters =
      fit(Family::kLogT, repeated(100, 5, {150, 150, 150, 150, 151}), kFreeNu);
  ASSERT_TRUE(clusters.law) << clusters.degenerate;
  EXPECT_TRUE(clusters.at_bound);
  EXPECT_DOUBLE_EQ(parameter(clusters, "nu"), 200);
  const FamilyFit none =
      fit(Family::kLogT, repeated(100, 5, {1, 7, 2'000, 90'000, 1'000'000}), kFreeNu);
  EXPECT_FALSE(none.law);
  EXPECT_NE(none.degenerate.find("sigma = 0"), std::string::npos) << none.degenerate;
}

TEST(FitDegenerate, IdenticalLengthsHaveOnlyTheLawsThatAreNeverNarrow) {
  for (const LengthSample& sample : {repeated(40, 1, {}), repeated(40, 30, {})}) {
    for (const Family family :
         {Family::kLogT, Family::kLogNormal, Family::kGamma, Family::kWeibull}) {
      SCOPED_TRACE(family_name(family));
      const FamilyFit none = fit(family, sample);
      EXPECT_FALSE(none.law);
      EXPECT_NE(none.degenerate.find("lengths are 40 tokens"), std::string::npos);
    }
    EXPECT_FALSE(fit(Family::kLogT, sample, kFreeNu).law);
    EXPECT_DOUBLE_EQ(parameter(fit(Family::kExponential, sample), "scale"), 40);
    const FamilyFit lomax = fit(Family::kLomax, sample);
    EXPECT_TRUE(lomax.at_bound);
    EXPECT_NEAR(lomax.law.value().quantile(0.5), 40 * std::log(2), 1e-3);
  }
}

TEST(FitDegenerate, OneLengthBelowTheCapIsEnoughWhereOthersWereCut) {
  const LengthSample sample = repeated(500, 3, {120}, 500);
  for (const Family family : {Family::kLogT, Family::kLogNormal, Family::kGamma, Family::kWeibull,
                              Family::kExponential, Family::kLomax}) {
    SCOPED_TRACE(family_name(family));
    const FamilyFit found = fit(family, sample);
    ASSERT_TRUE(found.law) << found.degenerate;
    EXPECT_GT(found.law->survival(500), 0.5);
    EXPECT_NEAR(found.loglik, loglik_of(*found.law, sample), 1e-9);
  }
}

TEST(FitDegenerate, AllAtTheCapHasNoMaximumInAnyFamily) {
  const LengthSample sample = repeated(256, 12, {}, 256);
  for (const Family family : {Family::kLogT, Family::kLogNormal, Family::kGamma, Family::kWeibull,
                              Family::kExponential, Family::kLomax}) {
    const FamilyFit none = fit(family, sample);
    EXPECT_FALSE(none.law);
    EXPECT_TRUE(none.degenerate.starts_with("all 12 lengths are at the cap")) << none.degenerate;
  }
  EXPECT_FALSE(log_t_degenerate(sample, 3.5)) << "bounded, only without a maximum";
}

TEST(Fit, BelowNuOneTheClusterAtTheCapIsFound) {
  const LengthSample narrow{"p", {28, 31, 20, 41, 52, 2001, 2002, 2000, 2001, 2002}, 2002};
  const FamilyFit found = fit(Family::kLogT, narrow, {.nu = 0.3});
  EXPECT_NEAR(parameter(found, "mu"), 7.6014, 1e-4);
  EXPECT_NEAR(parameter(found, "sigma"), 0.00052, 1e-5);
  EXPECT_GT(found.loglik, -56.79);
  const LengthSample half{
      "q", {119, 88, 58, 142, 78, 142, 67, 63, 300, 302, 301, 301, 300, 301, 302}, 302};
  EXPECT_GT(fit(Family::kLogT, half, {.nu = 0.5}).loglik, -84.94);
}

TEST(Fit, ANearlyNormalLogTGetsAwayFromATightCluster) {
  // The quartiles of this sample are a few parts in ten million apart, its ends a factor of 2,000.
  const LengthSample sample{
      "tight",
      {148.41315885518455, 253.4304316465158,   32.37900440770656,  148.4426157316563,
       148.41315900461126, 148.46735624230305,  253.4304316465158,  148.4131591418421,
       21.847032752071577, 0.10539520021419078, 239.6098687746324,  148.4131590743425,
       148.44091014763256, 253.4304316465158,   148.4131590009864,  148.4131587346584,
       148.41315922126404, 148.4131593704159,   23.009560090117077, 148.34129015122932,
       148.47395338852033},
      253.4304316465158};
  const FamilyFit normal = fit(Family::kLogNormal, sample);
  for (const double nu : {1e5, 3e5, 1e6, 1e9}) {
    const FamilyFit found = fit(Family::kLogT, sample, {.nu = nu});
    EXPECT_NEAR(found.loglik, normal.loglik, 100 / nu);
    EXPECT_NEAR(parameter(found, "mu"), parameter(normal, "mu"), 100 / nu);
    EXPECT_NEAR(parameter(found, "sigma"), parameter(normal, "sigma"), 200 / nu);
  }
}

TEST(Fit, TwoLengthsHaveTheirMiddleAsCentre) {
  const LengthSample sample{"two", {10, 1000}, {}};
  for (const double nu : {1.0, 3.5, 50.0}) {
    const FamilyFit found = fit(Family::kLogT, sample, {.nu = nu});
    EXPECT_NEAR(parameter(found, "mu"), std::log(100), 1e-12);
    EXPECT_NEAR(parameter(found, "sigma"), std::log(10), 1e-12);
    EXPECT_NEAR(found.loglik, loglik_of(*found.law, sample), 1e-12);
  }
  const FamilyFit free = fit(Family::kLogT, sample, kFreeNu);
  EXPECT_TRUE(free.at_bound);
  EXPECT_DOUBLE_EQ(parameter(free, "nu"), 200);
}

TEST(Fit, NamesWhatItRejects) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const auto message = [](std::vector<double> lengths, std::optional<double> cap,
                          const FitOptions& options = {}) {
    const auto fit = fit_family(Family::kGamma, {"x", std::move(lengths), cap}, options);
    return fit ? std::string("accepted") : fit.error().message;
  };
  EXPECT_TRUE(message({}, {}).starts_with("lengths: there are none"));
  for (const double bad : {0.0, -1.0, nan, infinity}) {
    EXPECT_TRUE(message({5, bad}, {}).starts_with("lengths[1]: ")) << bad;
    EXPECT_TRUE(message({5, 6}, bad).starts_with("cap: ")) << bad;
  }
  EXPECT_TRUE(message({5, 65}, 64).starts_with("lengths[1]: 65 is beyond the cap of 64"));
  for (const double bad : {0.0, nan, infinity, 0.09}) {
    EXPECT_TRUE(message({5, 6}, {}, {.nu = bad}).starts_with("nu: ")) << bad;
    EXPECT_TRUE(message({5, 6}, {}, {.nu = {}, .nu_min = bad}).starts_with("nu_min: ")) << bad;
    EXPECT_TRUE(message({5, 6}, {}, {.nu = {}, .nu_max = bad}).starts_with("nu_max: ")) << bad;
  }
  EXPECT_TRUE(message({5, 6}, {}, {.nu = {}, .nu_min = 9, .nu_max = 8}).starts_with("nu_min: 9"));
}

// ---- golden set: scipy, polished at 50 digits ---------------------------------------------------

Family family_of(const std::string& name) {
  for (const Family family : {Family::kLogT, Family::kLogNormal, Family::kGamma, Family::kWeibull,
                              Family::kExponential, Family::kLomax}) {
    if (family_name(family) == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  return Family::kBinned;
}

TEST(FitGolden, EveryFamilyAgreesWithAnIndependentOptimum) {
  const auto rows = testing::golden_fits();
  ASSERT_GT(rows.size(), 100u);
  int bounds = 0;
  for (const KnownFit& row : rows) {
    SCOPED_TRACE(row.sample.id + ", " + row.fit);
    const FamilyFit found = fit(family_of(row.fit), row.sample);
    ASSERT_TRUE(found.law) << found.degenerate;
    EXPECT_EQ(found.at_bound, row.at_bound);
    if (row.at_bound) {  // Lomax, run to the exponential law of this mean
      ++bounds;
      EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 1e-3);
      EXPECT_NEAR(found.law->quantile(0.5), row.numbers.at("mean") * std::log(2), 0.01);
      continue;
    }
    EXPECT_NEAR(found.loglik, row.numbers.at("loglik"), 1e-8);
    for (const auto& [name, value] : row.numbers) {
      if (name == "loglik") continue;
      EXPECT_LT(relative_error(parameter(found, name), value), 1e-8) << name;
    }
  }
  EXPECT_GT(bounds, 3);
}

TEST(FitGolden, TheSlopeIsZeroAtTheFit) {
  for (const KnownFit& row : testing::golden_fits()) {
    if (row.at_bound || row.fit == "exponential" || row.fit.starts_with("log-")) continue;
    SCOPED_TRACE(row.sample.id + ", " + row.fit);
    const FamilyFit found = fit(family_of(row.fit), row.sample);
    const auto p = found.law->parameters();
    const auto loglik = [&](double shape, double scale) {
      const auto law = row.fit == "gamma"     ? LengthLaw::gamma(shape, scale)
                       : row.fit == "weibull" ? LengthLaw::weibull(shape, scale)
                                              : LengthLaw::lomax(shape, scale);
      return loglik_of(law.value(), row.sample);
    };
    const double h = 1e-5;
    const double shape = p[0].value, scale = p[1].value;
    const double along_shape = loglik(shape * (1 + h), scale) - loglik(shape * (1 - h), scale);
    const double along_scale = loglik(shape, scale * (1 + h)) - loglik(shape, scale * (1 - h));
    // Third derivatives of a narrow law are large: they leave h²·shape^1.5 or so.
    const double allowed = 1e-4 * (1 + 1e-2 * shape);
    EXPECT_NEAR(along_shape / (2 * h), 0, allowed);
    EXPECT_NEAR(along_scale / (2 * h), 0, allowed);
  }
}

// ---- censoring ----------------------------------------------------------------------------------

LengthSample drawn(const LengthLaw& law, int n, std::optional<double> cap, Rng& rng) {
  LengthSample sample{"drawn", {}, cap};
  for (int i = 0; i < n; ++i) {
    const double length = law.quantile(std::max(1e-12, rng.uniform()));
    sample.lengths.push_back(cap ? std::min(length, *cap) : length);
  }
  return sample;
}

TEST(FitCensored, RecoversTheLawBehindTheCap) {
  Rng rng(20260401);
  const LengthLaw laws[] = {
      LengthLaw::log_t(5, 0.6).value(),    LengthLaw::log_normal(5, 0.8).value(),
      LengthLaw::gamma(2, 90).value(),     LengthLaw::weibull(0.8, 200).value(),
      LengthLaw::exponential(200).value(), LengthLaw::lomax(2, 200).value()};
  for (const LengthLaw& law : laws) {
    SCOPED_TRACE(law.describe());
    const double cap = law.quantile(0.6);  // two fifths are cut
    const LengthSample sample = drawn(law, 20'000, cap, rng);
    const FamilyFit found = fit(law.family(), sample);
    ASSERT_TRUE(found.law);
    for (const double p : {0.1, 0.5, 0.9}) {
      EXPECT_LT(relative_error(found.law->quantile(p), law.quantile(p)), 0.08) << p;
    }
    // As if the cap were a length like any other, the upper tail is lost.
    LengthSample uncut = sample;
    uncut.cap.reset();
    EXPECT_LT(fit(law.family(), uncut).law.value().quantile(0.9), 0.93 * law.quantile(0.9));
  }
}

TEST(FitCensored, FreeNuIsFoundBehindTheCap) {
  Rng rng(7);
  const LengthLaw law = LengthLaw::log_t(5, 0.6, 3).value();
  const FamilyFit found = fit(Family::kLogT, drawn(law, 50'000, law.quantile(0.9), rng), kFreeNu);
  EXPECT_FALSE(found.at_bound);
  EXPECT_NEAR(parameter(found, "nu"), 3, 0.4);
  EXPECT_NEAR(parameter(found, "sigma"), 0.6, 0.02);
}

TEST(Fit, AMillionDistinctLengthsAreNoTrouble) {
  Rng rng(3);
  const LengthLaw law = LengthLaw::log_t(6, 0.5).value();
  LengthSample sample{"million", {}, {}};
  for (int i = 0; i < 1'000'000; ++i) {
    sample.lengths.push_back(std::exp(6 + 0.5 * rng.student_t(3.5)));
  }
  const FamilyFit found = fit(Family::kLogT, sample);
  EXPECT_NEAR(parameter(found, "mu"), 6, 0.005);
  EXPECT_NEAR(parameter(found, "sigma"), 0.5, 0.005);
}

TEST(Fit, CriteriaFollowFromTheLikelihood) {
  const LengthSample sample{"x", {3, 5, 8, 13, 21}, {}};
  const FamilyFit found = fit(Family::kWeibull, sample);
  EXPECT_DOUBLE_EQ(found.aic, 4 - 2 * found.loglik);
  EXPECT_DOUBLE_EQ(found.bic, 2 * std::log(5) - 2 * found.loglik);
  EXPECT_NEAR(found.loglik, loglik_of(*found.law, sample), 1e-12);
}

TEST(Fit, LengthsTooAlikeForAGammaLawAreSaidToBe) {
  const FamilyFit none = fit(Family::kGamma, {"x", {1e9, 1e9 + 1, 1e9 + 2}, {}});
  EXPECT_FALSE(none.law);
  EXPECT_NE(none.degenerate.find("differ so little"), std::string::npos) << none.degenerate;
}

// ---- bins ---------------------------------------------------------------------------------------

TEST(FitBins, HoldTheSampleUpToThePseudoCount) {
  const LengthSample sample{"x", {1, 1, 2, 7, 7, 7, 30, 400, 400, 401}, {}};
  const LengthLaw bins = fit_bins(sample, 0).value();
  EXPECT_NEAR(bins.survival(1), 0.8, 1e-12);
  EXPECT_NEAR(bins.survival(6), 0.7, 1e-12);
  EXPECT_NEAR(bins.survival(7), 0.4, 1e-12);  // an atom at 7 for whole-token questions
  EXPECT_NEAR(bins.survival(500), 0, 1e-12);
  const LengthLaw smooth = fit_bins(sample, 1).value();
  EXPECT_GT(smooth.survival(500), 0);
  EXPECT_NEAR(smooth.survival(7), (4 + fit(Family::kLogT, sample).law->survival(7)) / 11, 1e-12);
}

TEST(FitBins, LeaveTheCensoredBeyondTheCap) {
  const LengthLaw bins = fit_bins({"x", {10, 20, 30, 512, 512}, 512}, 0).value();
  EXPECT_NEAR(bins.survival(512), 0.4, 1e-12);
  EXPECT_NEAR(bins.survival(100), 0.4, 1e-12);
  const LengthLaw all_cut = fit_bins({"x", {512, 512}, 512}).value();
  EXPECT_GT(all_cut.survival(512), 0.8);
}

TEST(FitBins, StayFewHoweverLongTheLengths) {
  for (const double longest : {1e-300, 0.5, 3.0, 1e6, 1e300}) {
    const LengthLaw bins = fit_bins({"x", {longest, longest / 2}, {}}).value();
    EXPECT_LE(bins.as_binned()->edges().size(), 1000u) << longest;
    EXPECT_GE(bins.as_binned()->edges().back(), longest);
  }
  EXPECT_FALSE(fit_bins({"x", {5}, {}}, -1));
  EXPECT_FALSE(fit_bins({"x", {}, {}}));
}

// ---- mixtures -----------------------------------------------------------------------------------

TEST(FitMixture, FindsTwoKindsOfAnswer) {
  Rng rng(11);
  LengthSample sample = drawn(LengthLaw::log_t(3, 0.2).value(), 600, {}, rng);
  const LengthSample longer = drawn(LengthLaw::log_t(6, 0.3).value(), 1400, {}, rng);
  sample.lengths.insert(sample.lengths.end(), longer.lengths.begin(), longer.lengths.end());
  for (const std::optional<double> cap : {std::optional<double>{}, std::optional<double>{450.0}}) {
    LengthSample cut = sample;
    cut.cap = cap;
    if (cap) {
      for (double& length : cut.lengths) length = std::min(length, *cap);
    }
    const FamilyFit found = fit(Family::kMixture, cut);
    ASSERT_TRUE(found.law);
    EXPECT_FALSE(found.at_bound);
    const Mixture& parts = *found.law->as_mixture();
    EXPECT_NEAR(parts.weight, 0.3, 0.03);
    EXPECT_NEAR(parts.first.as_log_t()->mu, 3, 0.05);
    EXPECT_NEAR(parts.first.as_log_t()->sigma, 0.2, 0.03);
    EXPECT_NEAR(parts.second.as_log_t()->mu, 6, 0.05);
    EXPECT_NEAR(parts.second.as_log_t()->sigma, 0.3, 0.04);
    EXPECT_NEAR(found.loglik, loglik_of(*found.law, cut), 1e-6);
  }
}

TEST(FitMixture, DoesNotCollapseOntoAnAtom) {
  // Twelve identical lengths among twenty: without a floor one part would take them with sigma = 0.
  const FamilyFit found =
      fit(Family::kMixture, repeated(100, 12, {20, 35, 50, 80, 150, 240, 400, 900}));
  ASSERT_TRUE(found.law);
  EXPECT_TRUE(found.at_bound);
  const Mixture& parts = *found.law->as_mixture();
  EXPECT_GE(parts.first.as_log_t()->sigma, 0.02 - 1e-12);
  EXPECT_GE(parts.second.as_log_t()->sigma, 0.02 - 1e-12);
  EXPECT_GT(found.loglik,
            fit(Family::kLogT, repeated(100, 12, {20, 35, 50, 80, 150, 240, 400, 900})).loglik);
}

TEST(FitMixture, TwoAtomsAreTwoNarrowParts) {
  const FamilyFit found = fit(Family::kMixture, repeated(10, 6, {1000, 1000, 1000, 1000}));
  ASSERT_TRUE(found.law);
  EXPECT_TRUE(found.at_bound);
  EXPECT_NEAR(found.law->survival(100), 0.4, 0.01);
  EXPECT_FALSE(fit(Family::kMixture, repeated(10, 6, {})).law);
}

TEST(FitMixture, APartBeyondTheCapStaysWithinReach) {
  const FamilyFit found = fit(Family::kMixture, repeated(512, 10, {20, 22, 25, 21, 23, 24}, 512));
  ASSERT_TRUE(found.law) << found.degenerate;
  EXPECT_LE(found.law->as_mixture()->second.as_log_t()->mu, std::log(1024) + 1e-12);
  EXPECT_NEAR(found.law->survival(512), 10.0 / 16, 0.05);
}

}  // namespace
}  // namespace tailrace::length
