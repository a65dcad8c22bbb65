#include "tailrace/length/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "length/support/fit_vectors.h"
#include "length/support/reference.h"
#include "tailrace/core/rng.h"

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

}  // namespace
}  // namespace tailrace::length
