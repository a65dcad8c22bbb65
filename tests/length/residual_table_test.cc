#include "tailrace/length/residual_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "length/support/reference.h"
#include "length/support/token_sums.h"
#include "tailrace/core/rng.h"

namespace tailrace::length {
namespace {

using testing::relative_error;
using testing::Row;
using testing::shared_vectors;
using testing::TokenSums;

constexpr double kAllowed = 1e-3;
constexpr double kMeaningful = 1e-280;  // a survival that has not lost its digits

/// The first ages, some of every size, and the last before the cap.
std::vector<std::int64_t> ages_below(std::int64_t cap, double growth) {
  std::vector<std::int64_t> ages{0, 1, 2, 3, 5};
  for (double age = 7; age < static_cast<double>(cap); age *= growth)
    ages.push_back(static_cast<std::int64_t>(age));
  for (const std::int64_t back : {1, 2, 3, 5, 15, 16, 17, 40, 63, 64, 65, 100})
    ages.push_back(cap - back);
  std::erase_if(ages, [&](std::int64_t age) { return age < 0 || age >= cap; });
  return ages;
}

/// Within one token or the allowed share.
bool agrees(std::int64_t fast, std::int64_t exact) {
  const auto off = static_cast<double>(std::abs(fast - exact));
  return off <= std::max(1.0, kAllowed * static_cast<double>(exact));
}

void expect_agreement(const LengthLaw& law, std::int64_t cap, double growth = 1.3) {
  const TokenSums exact(law, cap);
  for (const std::int64_t quantum : {1, 16, 64}) {
    const ResidualTable table(law, Tokens{cap}, Tokens{quantum});
    EXPECT_LE(table.bytes(), ResidualTable::kMaxBytes);
    for (const std::int64_t age : ages_below(cap, growth)) {
      if (exact.survival(age) < kMeaningful) continue;
      SCOPED_TRACE(::testing::Message() << law.describe() << ", cap " << cap << ", quantum "
                                        << quantum << ", age " << age);
      const Tokens a{age};
      EXPECT_LT(relative_error(table.survival(a), exact.survival(age)), kAllowed);
      EXPECT_LT(relative_error(table.mean_residual(a), exact.mean_residual(age)), kAllowed);
      EXPECT_LT(relative_error(table.gittins_rank(a), exact.gittins_rank(age, quantum)), kAllowed);
      for (const double p : {0.01, 0.1, 0.5, 0.9, 0.99}) {
        const std::int64_t fast = table.residual_quantile(p, a).count();
        EXPECT_TRUE(agrees(fast, exact.residual_quantile(p, age)))
            << fast << " for " << exact.residual_quantile(p, age) << " at " << p;
      }
    }
  }
}

TEST(ResidualTable, AgreesWithTheSharedVectors) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_FALSE(vectors->whole.empty());
  for (const Row& row : vectors->whole) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const auto law = LengthLaw::log_t(row.at("mu"), row.at("sigma"), row.at("nu")).value();
    const ResidualTable table(law, Tokens{static_cast<std::int64_t>(row.at("xmax"))}, Tokens{1});
    const Tokens age{static_cast<std::int64_t>(row.at("age"))};
    EXPECT_LT(relative_error(table.survival(age), row.at("survival")), kAllowed);
    EXPECT_LT(relative_error(table.mean_residual(age), row.at("mean_residual")), kAllowed);
    EXPECT_LT(relative_error(table.gittins_rank(age), row.at("gittins_rank")), kAllowed);
    EXPECT_TRUE(agrees(table.residual_quantile(0.5, age).count(),
                       static_cast<std::int64_t>(row.at("median_residual"))));
  }
}

TEST(ResidualTable, FollowsEveryLogTLawTokenByToken) {
  for (const double mu : {-1.0, 0.7, 2.0, 3.0, 5.0, 7.0, 11.0}) {
    for (const double sigma : {0.03, 0.1, 0.3, 0.75, 1.5, 3.0}) {
      const auto law = LengthLaw::log_t(mu, sigma).value();
      for (const std::int64_t cap : {1, 2, 16, 300, 4096}) expect_agreement(law, cap);
    }
  }
}

// The exact path does not walk the tokens either, so that the cap may be any.
TEST(ResidualTable, FollowsTheExactPathUpToLargeCaps) {
  for (const double mu : {-1.0, 2.0, 5.0, 8.0, 11.0}) {
    for (const double sigma : {0.03, 0.12, 0.75, 3.0}) {
      const auto law = LengthLaw::log_t(mu, sigma).value();
      for (const std::int64_t cap : {std::int64_t{1} << 16, std::int64_t{1} << 20}) {
        const ResidualTable table(law, Tokens{cap}, Tokens{16});
        for (const std::int64_t age : ages_below(cap, 1.9)) {
          SCOPED_TRACE(::testing::Message()
                       << law.describe() << ", cap " << cap << ", age " << age);
          const Tokens a{age};
          EXPECT_LT(relative_error(table.mean_residual(a), law.mean_residual(a, Tokens{cap})),
                    kAllowed);
          EXPECT_LT(
              relative_error(table.gittins_rank(a), law.gittins_rank(a, Tokens{cap}, Tokens{16})),
              kAllowed);
          EXPECT_TRUE(agrees(table.residual_quantile(0.9, a).count(),
                             law.residual_quantile(0.9, a, Tokens{cap}).count()));
        }
      }
    }
  }
}

TEST(ResidualTable, FollowsTheOtherFamilies) {
  for (const auto& law :
       {LengthLaw::log_t(4, 0.5, 1), LengthLaw::log_t(6, 0.2, 30), LengthLaw::log_normal(5, 0.75),
        LengthLaw::log_normal(8, 0.03), LengthLaw::log_normal(2, 0.1), LengthLaw::gamma(2, 100),
        LengthLaw::gamma(0.3, 1000), LengthLaw::gamma(400, 5), LengthLaw::weibull(0.3, 100),
        LengthLaw::weibull(1.5, 300), LengthLaw::weibull(30, 2000), LengthLaw::exponential(1),
        LengthLaw::exponential(300), LengthLaw::exponential(1e6), LengthLaw::lomax(1.1, 50),
        LengthLaw::lomax(5, 500)}) {
    for (const std::int64_t cap : {1, 2, 16, 300, 20'000}) expect_agreement(law.value(), cap);
  }
}

TEST(ResidualTable, FollowsBinsWithAtomsGapsAndAnEnd) {
  // Atoms at 1, 2 and 128 tokens, a gap, edges between tokens, an atom at 1,024, nothing beyond.
  const std::vector<double> edges{1, 2, 3.5, 40.25, 127, 128, 200, 700, 1023, 1024, 3000};
  const std::vector<double> ends{0.05, 0.02, 0.1, 0.13, 0.2, 0.1, 0, 0.15, 0, 0.2, 0.05, 0};
  const std::vector<double> goes_on{0.05, 0.02, 0.1, 0.13, 0.2, 0.1, 0, 0.15, 0, 0.2, 0.05, 0.1};
  for (const auto& masses : {ends, goes_on}) {
    const auto law = LengthLaw::binned(edges, masses).value();
    for (const std::int64_t cap : {1, 2, 100, 128, 129, 1024, 2048, 50'000})
      expect_agreement(law, cap, 1.05);
  }
}

TEST(ResidualTable, FollowsMixtures) {
  const auto narrow = LengthLaw::log_t(5.5, 0.03).value();
  const auto wide = LengthLaw::log_t(6.5, 1.2).value();
  const auto tokens = LengthLaw::binned(std::vector<double>{1, 100, 101, 2000},
                                        std::vector<double>{0.1, 0.3, 0.4, 0.2, 0})
                          .value();
  for (const double weight : {0.001, 0.3, 0.999}) {
    for (const auto& law : {LengthLaw::mixture(weight, narrow, wide).value(),
                            LengthLaw::mixture(weight, tokens, wide).value(),
                            LengthLaw::mixture(weight, tokens, narrow).value()}) {
      for (const std::int64_t cap : {2, 300, 10'000}) expect_agreement(law, cap, 1.1);
    }
  }
}

TEST(ResidualTable, AQuantumOfSixteenIsNeverDegenerateAtAgeZero) {
  const auto law = LengthLaw::log_t(5, 1).value();
  const ResidualTable shortest(law, Tokens{2048}, Tokens{1});
  const ResidualTable sixteen(law, Tokens{2048}, Tokens{16});
  EXPECT_LT(shortest.gittins_rank(Tokens{0}), 190) << "one token, because some answers end there";
  EXPECT_GT(sixteen.gittins_rank(Tokens{0}), 200);
}

TEST(ResidualTable, ARankIsNeverAboveTheMeanOfWhatIsLeft) {
  const auto law = LengthLaw::log_t(5, 0.75).value();
  const ResidualTable table(law, Tokens{2048}, Tokens{16});
  for (std::int64_t age = 0; age < 2048; ++age) {
    EXPECT_LE(table.gittins_rank(Tokens{age}), table.mean_residual(Tokens{age})) << age;
  }
}

TEST(ResidualTable, ServesTheLargestCapInBoundedMemory) {
  constexpr Tokens kCap{std::int64_t{1} << 53};
  for (const double mu : {-600.0, 0.0, 11.0, 30.0, 600.0}) {
    for (const double sigma : {1e-300, 1e-3, 0.03, 3.0, 50.0}) {
      const ResidualTable table(LengthLaw::log_t(mu, sigma).value(), kCap, Tokens{16});
      EXPECT_LT(table.bytes(), std::size_t{100} << 10) << mu << " " << sigma;
      for (std::int64_t age = 0; age < kCap.count(); age = 3 * age + 1) {
        const double left = table.mean_residual(Tokens{age});
        const double rank = table.gittins_rank(Tokens{age});
        const auto median = table.residual_quantile(0.5, Tokens{age}).count();
        EXPECT_TRUE(left >= 1 && left <= static_cast<double>(kCap.count() - age)) << age;
        EXPECT_TRUE(rank > 0 && rank <= left) << age;
        EXPECT_TRUE(median >= 1 && median <= kCap.count() - age) << age;
      }
    }
  }
}

TEST(ResidualTable, ThousandsOfBinsStayWithinTheMemoryBound) {
  Rng rng(7);
  std::vector<double> edges(LengthLaw::kMaxBins);
  std::vector<double> masses(edges.size() + 1);
  double edge = 0;
  for (double& e : edges) e = edge += 0.3 + 40 * rng.uniform();
  for (double& mass : masses) mass = rng.uniform() < 0.3 ? 0 : rng.exponential();
  const auto law = LengthLaw::binned(edges, masses).value();
  const ResidualTable table(law, Tokens{200'000}, Tokens{16});
  EXPECT_LE(table.bytes(), ResidualTable::kMaxBytes);
  expect_agreement(law, 100'000, 1.5);
}

TEST(ResidualTable, BeyondTheLawsEndItAnswersAsJustBefore) {
  const auto law = LengthLaw::binned(std::vector<double>{100}, std::vector<double>{1, 0}).value();
  const ResidualTable table(law, Tokens{2048}, Tokens{16});
  EXPECT_EQ(table.survival(Tokens{100}), 0);
  EXPECT_EQ(table.survival(Tokens{2047}), 0);
  EXPECT_EQ(table.mean_residual(Tokens{500}), 1);
  EXPECT_EQ(table.gittins_rank(Tokens{500}), 1);
  EXPECT_EQ(table.residual_quantile(0.5, Tokens{500}), Tokens{1});
}

}  // namespace
}  // namespace tailrace::length
