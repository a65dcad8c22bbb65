#include "tailrace/length/goodness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "length/kolmogorov.h"
#include "length/support/reference.h"

namespace tailrace::length {
namespace {

using testing::golden_rows;
using testing::relative_error;
using testing::Row;
using testing::shared_vectors;

LengthSample lengths(std::vector<double> values, std::optional<double> cap = std::nullopt) {
  return {"test", std::move(values), cap};
}

// ---- Kolmogorov-Smirnov, law known beforehand ---------------------------------------------------

TEST(KsPValue, AgreesWithScipy) {
  for (const Row& row : golden_rows("kolmogorov.csv")) {
    const auto n = static_cast<std::size_t>(row.at("n"));
    const double p = ks_p_value(row.at("d"), n);
    // Beyond n = 140 scipy itself changes to Pelz and Good's expansion, good to 3e-6 there; beyond
    // 1,000 ours is the corrected limit law.
    const double allowed = n <= 140 ? 1e-10 : 3e-6;
    EXPECT_NEAR(p, row.at("p"), n <= 1000 ? allowed : 3e-5) << n << ' ' << row.at("d");
    if (n <= 140) {
      EXPECT_LT(relative_error(p, row.at("p")), 1e-9) << n << ' ' << row.at("d");
    }
  }
}

TEST(KsPValue, IsCertainBelowHalfAStepAndImpossibleAtOne) {
  for (const std::size_t n : {1UL, 7UL, 1000UL}) {
    EXPECT_EQ(ks_p_value(0, n), 1);
    EXPECT_EQ(ks_p_value(0.5 / static_cast<double>(n), n), 1);
    EXPECT_EQ(ks_p_value(1, n), 0);
  }
  EXPECT_EQ(ks_p_value(0, 5000), 1);
}

// For one value D = max(U, 1 − U); for two, the known polynomial 1 − P = 1 − 2(2d − 1/2)² below 1/2
// and 1 − P = 2(1 − d)² above.
TEST(KsPValue, KnowsTheClosedFormsOfOneAndTwoValues) {
  for (const double d : {0.55, 0.7, 0.9}) EXPECT_NEAR(ks_p_value(d, 1), 2 * (1 - d), 1e-14);
  for (const double d : {0.3, 0.4, 0.49}) {
    EXPECT_NEAR(ks_p_value(d, 2), 1 - 2 * std::pow(2 * d - 0.5, 2), 1e-14);
  }
  for (const double d : {0.51, 0.8}) EXPECT_NEAR(ks_p_value(d, 2), 2 * std::pow(1 - d, 2), 1e-14);
}

TEST(KsPValue, FallsAsTheDistanceGrowsAcrossItsMethods) {
  for (const std::size_t n : {5UL, 16UL, 100UL, 999UL, 1001UL}) {
    double before = 1;
    for (double d = 0.001; d < 1; d += 0.001) {
      const double p = ks_p_value(d, n);
      ASSERT_LE(p, before + 1e-12) << n << ' ' << d;
      before = p;
    }
  }
}

TEST(KsPValue, MeetsTheLimitLawWhereTheExactOneEnds) {
  for (double x = 0.4; x < 2.5; x += 0.1) {
    const double d = x / std::sqrt(1000.0);
    EXPECT_NEAR(kolmogorov_exact(d, 1000), kolmogorov_large(d, 1000), 3e-5) << x;
  }
}

// ---- distances ----------------------------------------------------------------------------------

TEST(Distances, AgreeWithTheirDefinitionsCompleteAndCensored) {
  const auto law = LengthLaw::log_t(5, 0.7).value();
  for (const Row& row : golden_rows("goodness.csv")) {
    const double n = row.at("n");
    LengthSample sample;
    if (row.at("cap_level") < 1) sample.cap = law.quantile(row.at("cap_level"));
    for (double i = n - 0.5; i > 0; i -= 1) {  // descending: the order must not matter
      const double x = law.quantile(std::pow(i / n, row.at("bend")));
      sample.lengths.push_back(sample.cap ? std::min(x, *sample.cap) : x);
    }
    EXPECT_NEAR(ks_distance(sample, law), row.at("d"), 1e-12);
    EXPECT_LT(relative_error(ad_distance(sample, law), row.at("a2")), 1e-9)
        << n << ' ' << row.at("bend") << ' ' << row.at("cap_level");
  }
}

TEST(Distances, AgreeWithTheSharedFits) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_GE(vectors->mle.size(), 4u);
  for (const auto& example : vectors->mle) {
    const LengthSample sample = lengths(example.samples);
    const Row& fixed = example.fixed_nu;
    const auto log_t = LengthLaw::log_t(fixed.at("mu"), fixed.at("sigma"), fixed.at("nu")).value();
    const double d = ks_distance(sample, log_t);
    // mu and sigma are given to ten digits.
    EXPECT_NEAR(d, fixed.at("ks_D"), 1e-8);
    EXPECT_NEAR(ks_p_value(d, sample.lengths.size()), fixed.at("ks_p_exact"), 1e-7);
    const double x = std::sqrt(static_cast<double>(sample.lengths.size())) * d;
    EXPECT_NEAR(kolmogorov_limit(x), fixed.at("ks_p_asymptotic"), 1e-7);

    const Row& normal = example.lognormal;
    const auto log_normal = LengthLaw::log_normal(normal.at("mu"), normal.at("sigma_ml")).value();
    EXPECT_NEAR(ks_distance(sample, log_normal), normal.at("ks_D"), 1e-8);
    const Row& free = example.free_nu;
    const auto any_nu = LengthLaw::log_t(free.at("mu"), free.at("sigma"), free.at("nu")).value();
    EXPECT_NEAR(ks_distance(sample, any_nu), free.at("ks_D"), 1e-6);
  }
}

TEST(KsDistance, LooksAtBothSidesOfATie) {
  const auto law = LengthLaw::exponential(100).value();
  const double x = law.quantile(0.3);
  EXPECT_NEAR(ks_distance(lengths({x, x, x, x}), law), 0.7, 1e-12);
  EXPECT_NEAR(ks_distance(lengths({x, x, law.quantile(0.9), law.quantile(0.9)}), law), 0.4, 1e-12);
}

TEST(KsDistance, ComparesCensoredSamplesBelowTheCapOnly) {
  const auto law = LengthLaw::exponential(100).value();
  const double cap = law.quantile(0.5);
  // Half are cut, as the law says: only the steps below count.
  EXPECT_NEAR(ks_distance(lengths({law.quantile(0.25), cap}, cap), law), 0.25, 1e-12);
  // None ends below the cap although the law says half: seen just below it.
  EXPECT_NEAR(ks_distance(lengths({cap, cap, cap}, cap), law), 0.5, 1e-12);
  // A cap that cut nothing changes nothing.
  EXPECT_EQ(ks_distance(lengths({3, 70, 200}, 1000), law), ks_distance(lengths({3, 70, 200}), law));
}

TEST(AdDistance, StaysFiniteWhereTheLawGivesALengthNoChance) {
  const auto narrow = LengthLaw::weibull(50, 100).value();
  for (const auto cap : {std::optional<double>(), std::optional<double>(1e6)}) {
    const double a2 = ad_distance(lengths({1e-30, 1, 1e5, 1e6}, cap), narrow);
    EXPECT_TRUE(std::isfinite(a2));
    EXPECT_GT(a2, 100);
  }
}

// ---- the sample alone ---------------------------------------------------------------------------

TEST(DescribeSample, CountsMomentsQuantilesAndTheTail) {
  const SampleShape shape = describe_sample(lengths({40, 10, 20, 20, 60}, 60));
  EXPECT_EQ(shape.n, 5u);
  EXPECT_EQ(shape.n_capped, 1u);
  EXPECT_EQ(shape.distinct, 4u);
  EXPECT_DOUBLE_EQ(shape.mean, 30);
  EXPECT_NEAR(shape.cv, std::sqrt(320.0) / 30, 1e-14);
  EXPECT_NEAR(shape.skewness, (1000. - 8000 - 1000 - 1000 + 27000) / 5 / std::pow(320., 1.5),
              1e-12);
  EXPECT_DOUBLE_EQ(shape.p50, 20);
  EXPECT_DOUBLE_EQ(shape.p90, 40 + 0.6 * 20);
  EXPECT_DOUBLE_EQ(shape.p99, 40 + 0.96 * 20);
  EXPECT_DOUBLE_EQ(shape.top_tenth_share, 0.5 * 60 / 150);  // half of one value
  EXPECT_FALSE(shape.tail_index);
}

TEST(DescribeSample, WeighsTheBoundaryOfTheTopTenth) {
  std::vector<double> values(15, 1);
  values[3] = 50;
  values[7] = 10;
  EXPECT_DOUBLE_EQ(describe_sample(lengths(values)).top_tenth_share, (50 + 0.5 * 10) / 73);
}

TEST(DescribeSample, FindsTheIndexOfAPowerTailAlsoWhenItIsCut) {
  std::vector<double> values;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) values.push_back(std::pow((i + 0.5) / kCount, -1 / 1.5));
  EXPECT_NEAR(describe_sample(lengths(values)).tail_index.value(), 1.5, 0.01);
  const double cap = std::pow(0.02, -1 / 1.5);  // a fifth of the top tenth is cut
  for (double& value : values) value = std::min(value, cap);
  EXPECT_NEAR(describe_sample(lengths(values, cap)).tail_index.value(), 1.5, 0.01);
}

TEST(DescribeSample, OfAConstantSampleHasNoSpreadAndNoTail) {
  const SampleShape shape = describe_sample(lengths(std::vector<double>(100, 7)));
  EXPECT_EQ(shape.distinct, 1u);
  EXPECT_EQ(shape.cv, 0);
  EXPECT_EQ(shape.skewness, 0);
  EXPECT_EQ(shape.p99, 7);
  EXPECT_NEAR(shape.top_tenth_share, 0.1, 1e-15);
  EXPECT_FALSE(shape.tail_index);
}

TEST(DescribeSample, OfNothingIsAllZeros) {
  EXPECT_EQ(describe_sample(lengths({})).n, 0u);
}

}  // namespace
}  // namespace tailrace::length
