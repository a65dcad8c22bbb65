#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "length/support/reference.h"
#include "tailrace/length/binned.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {
namespace {

using testing::family_rows;
using testing::FamilyRow;
using testing::relative_error;

/// What rounding ln(tokens) and the like by one unit does to a probability there: no algorithm in
/// doubles can do better.
double conditioning(const LengthLaw& law, double tokens) {
  constexpr double kUnit = 2.3e-16;
  return 4 * kUnit * (1 + std::fabs(std::log(tokens))) * tokens * law.density(tokens);
}

TEST(Families, AgreeWithTheGoldenSet) {
  const std::vector<FamilyRow> rows = family_rows();
  ASSERT_GT(rows.size(), 200u);
  std::set<Family> seen;
  for (const FamilyRow& row : rows) {
    const LengthLaw& law = row.law;
    const double cap = row.values.at("cap");
    const double level = row.values.at("level");
    seen.insert(law.family());
    SCOPED_TRACE(law.describe() + " " + ::testing::PrintToString(row.values));
    EXPECT_LT(relative_error(law.capped_mean(cap), row.values.at("mean")), 1e-11);
    if (const double var = row.values.at("var"); var >= std::numeric_limits<double>::min()) {
      EXPECT_LT(relative_error(law.capped_var(level, cap), var), 1e-11);
    } else {
      EXPECT_EQ(law.capped_var(level, cap), std::numeric_limits<double>::min());
    }
    EXPECT_LT(relative_error(law.capped_cvar(level, cap), row.values.at("cvar")), 1e-11);
    const double slack = conditioning(law, cap);
    const double p_cap = row.values.at("p_cap");
    const double cdf = row.values.at("cdf");
    EXPECT_NEAR(law.survival(cap), p_cap, 1e-11 * p_cap + slack);
    EXPECT_NEAR(law.cdf(cap), cdf, 1e-11 * cdf + slack);
    EXPECT_TRUE(std::isnormal(law.quantile(level)));
    // Left out where no double holds it.
    if (const auto quantile = row.values.find("quantile"); quantile != row.values.end()) {
      EXPECT_LT(relative_error(law.quantile(level), quantile->second), 1e-11);
    }
    if (level == 0.9) {
      const CappedMoments fast = law.capped_moments_fast(cap);
      EXPECT_LT(relative_error(fast.mean, row.values.at("mean")), 1e-5);
      EXPECT_LT(relative_error(fast.cvar, row.values.at("cvar")), 1e-5);
    }
  }
  EXPECT_EQ(seen.size(), 7u) << "log-t has a golden set of its own; all others belong here";
}

TEST(Families, NameTheParameterTheyReject) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const auto message = [](const Result<LengthLaw>& law) {
    return law ? std::string("accepted") : law.error().message;
  };
  for (const double bad : {nan, infinity, -infinity, 0.0, -1.0, 1e-7, 1e13}) {
    EXPECT_TRUE(message(LengthLaw::gamma(bad, 1)).starts_with("shape: ")) << bad;
    EXPECT_TRUE(message(LengthLaw::weibull(bad, 1)).starts_with("shape: ")) << bad;
    EXPECT_TRUE(message(LengthLaw::lomax(bad, 1)).starts_with("shape: ")) << bad;
  }
  for (const double bad : {nan, infinity, -infinity, 0.0, -1.0, 1e-300, 1e300}) {
    EXPECT_TRUE(message(LengthLaw::gamma(1, bad)).starts_with("scale: ")) << bad;
    EXPECT_TRUE(message(LengthLaw::weibull(1, bad)).starts_with("scale: ")) << bad;
    EXPECT_TRUE(message(LengthLaw::lomax(1, bad)).starts_with("scale: ")) << bad;
    EXPECT_TRUE(message(LengthLaw::exponential(bad)).starts_with("scale: ")) << bad;
  }
  EXPECT_TRUE(message(LengthLaw::log_normal(701, 1)).starts_with("mu: "));
  EXPECT_TRUE(message(LengthLaw::log_normal(0, 0)).starts_with("sigma: "));
  const auto bins = [&](std::vector<double> edges, std::vector<double> masses) {
    return message(LengthLaw::binned(edges, masses));
  };
  EXPECT_TRUE(bins({}, {1}).starts_with("bins: "));
  EXPECT_TRUE(bins({1, 2}, {1, 2}).starts_with("bins: "));
  EXPECT_TRUE(bins({2, 1}, {1, 2, 3}).starts_with("edges: 1 "));
  EXPECT_TRUE(bins({0, 1}, {1, 2, 3}).starts_with("edges: 0 "));
  EXPECT_TRUE(bins({1, infinity}, {1, 2, 3}).starts_with("edges: inf "));
  EXPECT_TRUE(bins({1}, {nan, 1}).starts_with("masses: nan "));
  EXPECT_TRUE(bins({1}, {-1, 2}).starts_with("masses: -1 "));
  EXPECT_TRUE(bins({1}, {0, 0}).starts_with("masses: "));
  const auto plain = LengthLaw::exponential(1).value();
  const auto mixture = LengthLaw::mixture(0.5, plain, plain).value();
  EXPECT_TRUE(message(LengthLaw::mixture(1.5, plain, plain)).starts_with("weight: 1.5 "));
  EXPECT_TRUE(message(LengthLaw::mixture(nan, plain, plain)).starts_with("weight: nan "));
  EXPECT_TRUE(message(LengthLaw::mixture(0.5, mixture, plain)).starts_with("mixture: "));
}

TEST(Families, AnswersAreFiniteAndOrderedForExtremeParameters) {
  std::vector<LengthLaw> laws;
  for (const double scale : {1e-290, 1e-6, 1.0, 1e9, 1e290}) {
    for (const double shape : {1e-6, 0.01, 1 - 1e-12, 1.0, 40.0, 1e5, 1e12}) {
      laws.push_back(LengthLaw::gamma(shape, scale).value());
      laws.push_back(LengthLaw::weibull(shape, scale).value());
      laws.push_back(LengthLaw::lomax(shape, scale).value());
    }
    laws.push_back(LengthLaw::exponential(scale).value());
    const double edges[] = {scale, 3 * scale};
    const double masses[] = {1, 2, 0.5};
    laws.push_back(LengthLaw::binned(edges, masses).value());
  }
  for (const double mu : {-700.0, 0.0, 9.0, 700.0}) {
    for (const double sigma : {1e-300, 1e-6, 1.0, 20.0, 1e300}) {
      laws.push_back(LengthLaw::log_normal(mu, sigma).value());
    }
  }
  const std::size_t plain = laws.size();
  for (std::size_t i = 0; i < plain; i += 3) {
    laws.push_back(LengthLaw::mixture(0.5, laws[i], laws[plain - 1 - i]).value());
  }
  for (const LengthLaw& law : laws) {
    double previous = 0;
    for (const double cap : {1e-3, 1.0, 2048.0, 1e9, 0x1p53}) {
      for (const double level : {1e-300, 1e-6, 0.5, 0.9, 1 - 0x1p-53}) {
        SCOPED_TRACE(::testing::Message()
                     << law.describe() << ", cap " << cap << ", level " << level);
        const double quantile = law.quantile(level);
        ASSERT_TRUE(quantile > 0 && std::isfinite(quantile)) << quantile;
        const double mean = law.capped_mean(cap);
        const double cvar = law.capped_cvar(level, cap);
        ASSERT_TRUE(mean >= 0 && mean <= cap) << mean;
        ASSERT_TRUE(cvar >= mean * (1 - 1e-11) && cvar <= cap) << cvar << " " << mean;
        ASSERT_LE(law.capped_var(level, cap), cvar * (1 + 1e-11));
        ASSERT_GE(mean, previous * (1 - 1e-11));
        previous = mean;
      }
      ASSERT_NEAR(law.survival(cap) + law.cdf(cap), 1, 1e-12) << law.describe() << " " << cap;
      ASSERT_FALSE(std::isnan(law.density(cap))) << law.describe() << " " << cap;
      ASSERT_GE(law.density(cap), 0) << law.describe() << " " << cap;
    }
  }
}

TEST(Families, CopiesAreCheap) {
  EXPECT_LE(sizeof(LengthLaw), 32u);
  std::vector<double> edges(LengthLaw::kMaxBins);
  std::vector<double> masses(LengthLaw::kMaxBins + 1, 1.0);
  for (std::size_t i = 0; i < edges.size(); ++i) edges[i] = static_cast<double>(i + 1);
  const auto law = LengthLaw::binned(edges, masses).value();
  const LengthLaw copy = law;
  EXPECT_EQ(copy.as_binned(), law.as_binned()) << "the table was copied";
  EXPECT_EQ(copy, law);
}

}  // namespace
}  // namespace tailrace::length
