#include "tailrace/length/length_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "length/quadrature.h"
#include "length/student_t.h"
#include "length/support/reference.h"

namespace tailrace::length {
namespace {

using testing::golden_rows;
using testing::relative_error;
using testing::Row;
using testing::shared_vectors;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LengthLaw law_of(const Row& row) {
  return LengthLaw::log_t(row.at("mu"), row.at("sigma"), row.at("nu")).value();
}

TEST(StudentT, HasTheQuantilesThatTheMethodRestsOn) {
  // 20 digits from a 40-digit inversion of the incomplete beta function.
  EXPECT_NEAR(t_quantile(0.90, 3.5), 1.576576605136405068, 1e-14);
  EXPECT_NEAR(t_quantile(0.95, 3.5), 2.2224334936496015335, 1e-14);
  EXPECT_NEAR(t_quantile(0.99, 3.5), 4.0607113593000837192, 4e-14);
  EXPECT_NEAR(t_density(0, 3.5), 0.371772343732, 1e-12);
  EXPECT_NEAR(t_quantile(0.9, std::nextafter(3.5, 4)), kTieQuantile90, 1e-13)
      << "the constant and the computed quantile differ";
}

TEST(StudentT, SurvivalAndQuantileAreInverse) {
  for (const double nu : {0.1, 1.0, 3.5, 30.0, 1e6}) {
    for (const double p : {1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12}) {
      const double tail = t_survival(t_quantile(p, nu), nu);
      EXPECT_NEAR(tail / (1 - p), 1, 1e-9) << "nu " << nu << " p " << p;
    }
  }
}

TEST(StudentT, IsQuietFarOut) {
  EXPECT_EQ(t_survival(kInfinity, 3.5), 0);
  EXPECT_EQ(t_survival(-kInfinity, 3.5), 1);
  EXPECT_EQ(t_density(kInfinity, 3.5), 0);
  EXPECT_NEAR(t_survival(1e6, 3.5) / (1.77976284 * std::pow(1e6, -3.5)), 1, 1e-6);
}

TEST(StudentT, AgreesWithTheSharedVectors) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_FALSE(vectors->t_survival.empty());
  for (const Row& row : vectors->t_survival) {
    EXPECT_LT(relative_error(t_survival(row.at("z"), 3.5), row.at("sf")), 1e-11);
    EXPECT_LT(relative_error(t_density(row.at("z"), 3.5), row.at("pdf")), 1e-11);
  }
}

TEST(LengthLaw, NamesTheParameterItRejects) {
  const double nan = std::nan("");
  const auto message = [](double mu, double sigma, double nu) {
    const auto law = LengthLaw::log_t(mu, sigma, nu);
    return law ? std::string("accepted") : law.error().message;
  };
  for (const double mu : {nan, kInfinity, -kInfinity, 700.1, -700.1}) {
    EXPECT_TRUE(message(mu, 1, 3.5).starts_with("mu: ")) << message(mu, 1, 3.5);
  }
  for (const double sigma : {nan, kInfinity, 0.0, -1.0}) {
    EXPECT_TRUE(message(5, sigma, 3.5).starts_with("sigma: ")) << message(5, sigma, 3.5);
  }
  for (const double nu : {nan, kInfinity, 0.0, -1.0, 0.09, 1e300}) {
    EXPECT_TRUE(message(5, 1, nu).starts_with("nu: ")) << message(5, 1, nu);
  }
}

TEST(LengthLaw, MedianIsTheExponentialOfMu) {
  const auto law = LengthLaw::log_t(5, 0.75).value();
  EXPECT_DOUBLE_EQ(law.median(), std::exp(5));
  EXPECT_DOUBLE_EQ(law.survival(law.median()), 0.5);
  EXPECT_EQ(law.survival(0), 1);
  EXPECT_EQ(law.survival(-3), 1);
  EXPECT_EQ(law.density(0), 0);
}

TEST(LengthLaw, DensityIsTheSlopeOfSurvival) {
  const auto law = LengthLaw::log_t(4.6, 0.75).value();
  for (const double x : {5.0, 60.0, 99.0, 400.0, 30'000.0}) {
    const double h = 1e-4 * x;
    const double slope = (law.survival(x - h) - law.survival(x + h)) / (2 * h);
    EXPECT_LT(relative_error(law.density(x), slope), 1e-6) << x;
  }
}

TEST(LengthLaw, AgreesWithTheGoldenSet) {
  const auto rows = golden_rows("log_t.csv");
  ASSERT_GT(rows.size(), 60u);
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const LengthLaw law = law_of(row);
    const double cap = row.at("cap");
    const double level = row.at("level");
    EXPECT_LT(relative_error(law.survival(cap), row.at("p_cap")), 1e-10);
    EXPECT_LT(relative_error(law.capped_mean(cap), row.at("mean")), 1e-11);
    EXPECT_LT(relative_error(law.capped_var(level, cap), row.at("var")), 1e-11);
    EXPECT_LT(relative_error(law.capped_cvar(level, cap), row.at("cvar")), 1e-11);
  }
}

TEST(LengthLaw, AgreesWithTheSharedVectors) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_FALSE(vectors->moments.empty());
  for (const Row& row : vectors->moments) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const LengthLaw law = law_of(row);
    const double cap = row.at("xmax");
    EXPECT_LT(relative_error(law.survival(cap), row.at("p_hit_cap")), 1e-10);
    EXPECT_LT(relative_error(law.capped_mean(cap), row.at("mean_truncated")), 1e-11);
    EXPECT_LT(relative_error(law.capped_var(0.9, cap), row.at("var_090")), 1e-11);
    EXPECT_LT(relative_error(law.capped_cvar(0.9, cap), row.at("cvar_090")), 1e-11);
  }
}

TEST(LengthLaw, IsFiniteAndOrderedForExtremeInputs) {
  for (const double mu : {-700.0, -600.0, -5.0, 0.0, 9.0, 600.0, 700.0}) {
    for (const double sigma : {1e-300, 1e-12, 0.001, 0.5, 50.0, 1e6, 1e300}) {
      for (const double nu : {0.1, 1.0, 3.5, 200.0, 1e6}) {
        const auto law = LengthLaw::log_t(mu, sigma, nu).value();
        double previous = 0;
        for (const double cap : {1.0, 16.0, 2048.0, 1e6, 1e9}) {
          const double mean = law.capped_mean(cap);
          const double cvar = law.capped_cvar(0.9, cap);
          ASSERT_TRUE(mean > 0 && mean <= cap) << mu << " " << sigma << " " << nu << " " << cap;
          ASSERT_TRUE(cvar >= mean * (1 - 1e-11) && cvar <= cap)
              << mu << " " << sigma << " " << nu << " " << cap << ": " << mean << " " << cvar;
          ASSERT_LE(law.capped_var(0.9, cap), cvar * (1 + 1e-11));
          ASSERT_GE(mean, previous * (1 - 1e-11)) << mu << " " << sigma << " " << nu << " " << cap;
          previous = mean;
        }
      }
    }
  }
}

TEST(LengthLaw, ConditioningOnMoreTailNeverShortens) {
  const auto law = LengthLaw::log_t(4.6, 0.75).value();
  double previous = 0;
  for (const double level : {1e-9, 0.1, 0.5, 0.8, 0.9, 0.99, 0.999, 1 - 1e-9}) {
    const double cvar = law.capped_cvar(level, 2048);
    EXPECT_GE(cvar, previous);
    previous = cvar;
  }
  EXPECT_LT(relative_error(law.capped_cvar(1e-9, 2048), law.capped_mean(2048)), 1e-8);
  EXPECT_EQ(previous, 2048);
}

}  // namespace
}  // namespace tailrace::length
