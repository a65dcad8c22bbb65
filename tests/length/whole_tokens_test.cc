#include "length/whole_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "length/support/reference.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {
namespace {

using testing::golden_rows;
using testing::relative_error;
using testing::Row;
using testing::shared_vectors;

LengthLaw log_t(double mu, double sigma, double nu = 3.5) {
  return LengthLaw::log_t(mu, sigma, nu).value();
}

LengthLaw bins(const std::vector<double>& edges, const std::vector<double>& masses) {
  return LengthLaw::binned(edges, masses).value();
}

LengthLaw log_spaced_bins() {
  std::vector<double> edges;
  std::vector<double> masses;
  for (double edge = 1; edge < 40'000; edge = std::ceil(edge * 1.3)) {
    edges.push_back(edge);
    masses.push_back(1 + std::sin(edge) + 5 * std::exp(-std::pow(std::log(edge / 3000), 2)));
  }
  masses.push_back(0.5);
  return bins(edges, masses);
}

/// Every family: short and long, narrow and wide, with rising and with falling hazards.
std::vector<LengthLaw> every_family() {
  return {
      LengthLaw::log_normal(5, 0.75).value(),
      LengthLaw::log_normal(9, 0.02).value(),
      LengthLaw::log_normal(8, 1e-5).value(),
      LengthLaw::log_normal(2, 4).value(),
      LengthLaw::gamma(2, 150).value(),
      LengthLaw::gamma(0.1, 9000).value(),
      LengthLaw::gamma(1e-5, 1e6).value(),
      LengthLaw::gamma(900, 3).value(),
      LengthLaw::gamma(1e9, 8e-6).value(),
      LengthLaw::weibull(0.4, 300).value(),
      LengthLaw::weibull(3, 2000).value(),
      LengthLaw::weibull(200, 7000).value(),
      LengthLaw::weibull(1e-3, 50).value(),
      LengthLaw::exponential(0.3).value(),
      LengthLaw::exponential(700).value(),
      LengthLaw::lomax(1.5, 300).value(),
      LengthLaw::lomax(0.2, 5).value(),
      LengthLaw::lomax(1e7, 3e9).value(),
      log_spaced_bins(),
      bins({0.5, 2, 2.25, 10, 300, 300.5, 300.75, 4000}, {1, 0, 2, 3, 0.001, 2, 1, 1, 0.5}),
      bins({1000, 1001}, {3, 1, 0}),
      bins({5}, {0, 1}),
      LengthLaw::mixture(0.3, log_t(3, 0.3), log_t(8, 0.5)).value(),
      LengthLaw::mixture(0.7, LengthLaw::gamma(60, 2).value(), log_t(7, 1)).value(),
      LengthLaw::mixture(0.5, log_t(4, 1e-4), LengthLaw::weibull(50, 9000).value()).value(),
      LengthLaw::mixture(0.2, log_spaced_bins(), LengthLaw::log_normal(6, 0.1).value()).value(),
  };
}

/// Every sum term by term, as the definition says.
class BruteForce {
 public:
  BruteForce(const LengthLaw& law, std::int64_t cap) : cap_(cap) {
    for (std::int64_t k = 0; k < cap; ++k) {
      alive_.push_back(law.survival(static_cast<double>(k)));
      gone_.push_back(law.cdf(static_cast<double>(k)));
    }
    alive_.push_back(0);
    gone_.push_back(1);
  }

  double alive(std::int64_t k) const { return alive_[static_cast<std::size_t>(k)]; }

  double mean_residual(std::int64_t age) const {
    long double served = 0;
    for (std::int64_t k = age; k < cap_; ++k) served += alive(k);
    return static_cast<double>(served / alive(age));
  }

  double mean_inverse() const {
    long double sum = 0;
    for (std::int64_t k = 1; k <= cap_; ++k) sum += mass(k) / static_cast<long double>(k);
    return static_cast<double>(sum);
  }

  double gittins_rank(std::int64_t age, std::int64_t quantum) const {
    double rank = std::numeric_limits<double>::infinity();
    long double served = 0;
    long double finished = 0;
    for (std::int64_t b = age + 1; b <= cap_; ++b) {
      served += alive(b - 1);
      finished += mass(b);
      if ((b >= age + quantum || b == cap_) && finished > 0) {
        rank = std::min(rank, static_cast<double>(served / finished));
      }
    }
    return rank;
  }

 private:
  /// P(Xd = k), from the side that keeps its digits.
  double mass(std::int64_t k) const {
    const auto i = static_cast<std::size_t>(k);
    return gone_[i] < 0.5 ? gone_[i] - gone_[i - 1] : alive_[i - 1] - alive_[i];
  }

  std::int64_t cap_;
  std::vector<double> alive_;
  std::vector<double> gone_;
};

void expect_brute_force(const LengthLaw& law, std::int64_t cap, std::vector<std::int64_t> ages,
                        double tolerance) {
  const BruteForce brute(law, cap);
  SCOPED_TRACE(::testing::Message() << law.describe() << ", cap " << cap);
  EXPECT_LT(relative_error(mean_inverse(law, cap), brute.mean_inverse()), tolerance);
  for (const std::int64_t age : ages) {
    if (brute.alive(age) < 1e-280) continue;
    SCOPED_TRACE(::testing::Message() << "age " << age);
    EXPECT_LT(relative_error(mean_residual(law, age, cap), brute.mean_residual(age)), tolerance);
    for (const std::int64_t quantum : {1, 16}) {
      EXPECT_LT(
          relative_error(gittins_rank(law, age, cap, quantum), brute.gittins_rank(age, quantum)),
          tolerance)
          << "quantum " << quantum;
    }
  }
}

TEST(WholeTokens, AgreesWithTheGoldenSet) {
  const auto rows = golden_rows("whole_tokens.csv");
  ASSERT_GT(rows.size(), 10u);
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const auto law = LengthLaw::log_t(row.at("mu"), row.at("sigma"), row.at("nu")).value();
    const Tokens cap{static_cast<std::int64_t>(row.at("cap"))};
    const Tokens age{static_cast<std::int64_t>(row.at("age"))};
    const Tokens quantum{static_cast<std::int64_t>(row.at("quantum"))};
    EXPECT_LT(relative_error(law.mean_residual(age, cap), row.at("mean_residual")), 1e-10);
    EXPECT_LT(relative_error(law.mean_inverse(cap), row.at("mean_inverse")), 1e-10);
    EXPECT_LT(relative_error(law.gittins_rank(age, cap, quantum), row.at("gittins_rank")), 1e-10);
  }
}

TEST(WholeTokens, AgreesWithTheSharedVectors) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  ASSERT_FALSE(vectors->whole.empty());
  for (const Row& row : vectors->whole) {
    SCOPED_TRACE(::testing::PrintToString(row));
    const auto law = LengthLaw::log_t(row.at("mu"), row.at("sigma"), row.at("nu")).value();
    const Tokens cap{static_cast<std::int64_t>(row.at("xmax"))};
    const Tokens age{static_cast<std::int64_t>(row.at("age"))};
    EXPECT_LT(relative_error(law.survival(row.at("age")), row.at("survival")), 1e-9);
    EXPECT_LT(relative_error(law.mean_residual(age, cap), row.at("mean_residual")), 1e-9);
    EXPECT_LT(relative_error(law.gittins_rank(age, cap, Tokens{1}), row.at("gittins_rank")), 1e-9);
    EXPECT_EQ(static_cast<double>(law.residual_quantile(0.5, age, cap).count()),
              row.at("median_residual"));
  }
}

TEST(WholeTokens, SkippingSmoothStretchesChangesNothing) {
  const LengthLaw laws[] = {log_t(4.6, 0.75),   log_t(7, 2.5),    log_t(9, 0.3),
                            log_t(9, 0.001),    log_t(9, 1e-5),   log_t(8, 0.1, 1),
                            log_t(8, 0.1, 200), log_t(3, 5, 0.5), log_t(600, 50),
                            log_t(-600, 50),    log_t(5, 1e-12),  log_t(9.5, 0.05, 10)};
  for (const LengthLaw& law : laws) {
    expect_brute_force(law, 20'000, {0, 7, 9'000, 19'998}, 1e-10);
  }
}

TEST(WholeTokens, EveryFamilyAgreesWithItsSumsTermByTerm) {
  for (const LengthLaw& law : every_family()) {
    expect_brute_force(law, 20'000, {0, 1, 300, 8'000, 19'990}, 1e-9);
    expect_brute_force(law, 1, {0}, 1e-12);
    expect_brute_force(law, 37, {2}, 1e-9);
  }
}

TEST(WholeTokens, AMillionTokensAreSummedAsExactly) {
  const LengthLaw laws[] = {
      log_t(11, 1),
      LengthLaw::log_normal(12, 0.5).value(),
      LengthLaw::gamma(0.5, 2e5).value(),
      LengthLaw::gamma(1e4, 50).value(),
      LengthLaw::weibull(0.5, 9e4).value(),
      LengthLaw::lomax(1.1, 1000).value(),
      log_spaced_bins(),
      LengthLaw::mixture(0.6, log_t(5, 0.5), LengthLaw::gamma(300, 2000).value()).value()};
  for (const LengthLaw& law : laws) {
    expect_brute_force(law, 1 << 20, {0, 123'456}, 1e-9);
  }
}

TEST(WholeTokens, AThinTailIsSummedTokenByToken) {
  const LengthLaw law = log_t(5.10772, 0.00362007, 200);
  // From age 170 on it loses most of itself each token.
  expect_brute_force(law, 457, {150, 165, 170, 180, 200}, 1e-10);
}

TEST(WholeTokens, ResidualQuantileIsTheFirstTokenCountThatIsEnough) {
  constexpr std::int64_t kCap = 20'000;
  for (const LengthLaw& law : every_family()) {
    for (const std::int64_t age : {0, 1, 300, 8'000, 19'990}) {
      const double alive = law.survival(static_cast<double>(age));
      if (alive < 1e-280) continue;
      for (const double p : {1e-6, 0.1, 0.5, 0.9, 1 - 1e-6}) {
        SCOPED_TRACE(::testing::Message() << law.describe() << ", age " << age << ", p " << p);
        const std::int64_t rest = residual_quantile(law, p, age, kCap);
        const auto survives = [&](std::int64_t tokens) {
          return age + tokens >= kCap ? 0 : law.survival(static_cast<double>(age + tokens)) / alive;
        };
        ASSERT_TRUE(rest >= 1 && rest <= kCap - age) << rest;
        EXPECT_LE(survives(rest), (1 - p) * (1 + 1e-9) + 1e-15);
        if (rest > 1) {
          EXPECT_GE(survives(rest - 1), (1 - p) * (1 - 1e-9) - 1e-15);
        }
      }
    }
  }
}

TEST(WholeTokens, NoCapIsTooLarge) {
  const std::int64_t cap = std::int64_t{1} << 53;
  for (const LengthLaw& law : every_family()) {
    for (const std::int64_t age : {std::int64_t{0}, std::int64_t{5000}, cap / 3, cap - 1}) {
      SCOPED_TRACE(::testing::Message() << law.describe() << ", age " << age);
      const double left = mean_residual(law, age, cap);
      const double rank = gittins_rank(law, age, cap, 16);
      EXPECT_TRUE(left >= 1 && left <= static_cast<double>(cap - age)) << left;
      EXPECT_TRUE(rank >= 1 - 1e-10 && rank <= left * (1 + 1e-10)) << rank << " " << left;
    }
    const double inverse = mean_inverse(law, cap);
    EXPECT_TRUE(inverse > 0 && inverse <= 1) << law.describe() << " " << inverse;
  }
}

// A falling hazard makes the shortest look the best: with one token it is the chance of ending at
// once. A quantum of 16 tokens keeps what the law says about its scale.
TEST(WholeTokens, AQuantumKeepsTheRankOfANewRequestInformative) {
  const Tokens cap{4096};
  const auto rank = [&](const LengthLaw& law) {
    return law.gittins_rank(Tokens{0}, cap, Tokens{16});
  };
  const auto shorter = LengthLaw::gamma(0.2, 200).value();
  const auto longer = LengthLaw::gamma(0.2, 20'000).value();
  EXPECT_GT(rank(shorter), 1.5);
  EXPECT_GT(rank(longer), 1.5 * rank(shorter));
  for (const LengthLaw& law : every_family()) {
    const double value = rank(law);
    EXPECT_TRUE(std::isfinite(value) && value >= 1 - 1e-12) << law.describe() << " " << value;
  }
}

TEST(WholeTokens, ACapOfOneTokenIsCertain) {
  const auto law = LengthLaw::log_t(4.6, 0.75).value();
  EXPECT_EQ(law.mean_residual(Tokens{0}, Tokens{1}), 1);
  EXPECT_EQ(law.mean_inverse(Tokens{1}), 1);
  EXPECT_EQ(law.gittins_rank(Tokens{0}, Tokens{1}, Tokens{16}), 1);
}

TEST(WholeTokens, RemainingTokensStayWithinWhatTheCapLeaves) {
  for (const double mu : {-600.0, 0.0, 5.0, 600.0}) {
    for (const double sigma : {1e-300, 0.001, 0.75, 50.0}) {
      for (const double nu : {0.1, 3.5, 1e5}) {
        const auto law = LengthLaw::log_t(mu, sigma, nu).value();
        for (const std::int64_t age :
             {std::int64_t{0}, std::int64_t{500}, std::int64_t{999'999'999}}) {
          const Tokens cap{1'000'000'000};
          SCOPED_TRACE(::testing::Message() << mu << " " << sigma << " " << nu << " " << age);
          const double left = law.mean_residual(Tokens{age}, cap);
          const double rank = law.gittins_rank(Tokens{age}, cap, Tokens{16});
          EXPECT_TRUE(left >= 1 && left <= static_cast<double>(cap.count() - age)) << left;
          EXPECT_GT(rank, 0);
          EXPECT_LE(rank, left * (1 + 1e-10)) << "serving to the end is one of the choices";
        }
      }
    }
  }
}

TEST(WholeTokens, ALongerQuantumNeverLowersTheRank) {
  const auto law = LengthLaw::log_t(5, 1).value();
  double previous = 0;
  for (const std::int64_t quantum : {1, 2, 16, 100, 1000, 2048, 5000}) {
    const double rank = law.gittins_rank(Tokens{0}, Tokens{2048}, Tokens{quantum});
    EXPECT_GE(rank, previous);
    previous = rank;
  }
  EXPECT_LT(relative_error(previous, law.mean_residual(Tokens{0}, Tokens{2048})), 1e-12)
      << "a quantum beyond the cap serves to the end";
}

// The two conventions are one law: rounding up adds half a token on average to every answer that
// the cap does not cut, where the law is smooth over a token; it matters ever less as answers grow.
TEST(WholeTokens, AgreesWithTheContinuousLawOnLongAnswers) {
  for (const double mu : {3.0, 5.0, 7.0, 9.0}) {
    const auto law = LengthLaw::log_t(mu, 0.75).value();
    const Tokens cap{131'072};
    const double whole = law.mean_residual(Tokens{0}, cap);
    const double continuous = law.capped_mean(131'072);
    const double uncut = 1 - law.survival(131'072);
    EXPECT_NEAR(whole - continuous, 0.5 * uncut, 1 - law.survival(2)) << mu;
  }
}

}  // namespace
}  // namespace tailrace::length
