#include "length/whole_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "length/support/reference.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {
namespace {

using testing::golden_rows;
using testing::relative_error;
using testing::Row;
using testing::shared_vectors;

/// Every sum term by term, as the definition says.
struct BruteForce {
  double residual = 0, inverse = 0, rank = std::numeric_limits<double>::infinity();

  BruteForce(const LogT& law, std::int64_t age, std::int64_t cap, std::int64_t quantum) {
    const double alive = whole_survival(law, age, cap);
    double served = 0;
    for (std::int64_t b = age + 1; b <= cap; ++b) {
      served += whole_survival(law, b - 1, cap);
      const double finished = alive - whole_survival(law, b, cap);
      if ((b >= age + quantum || b == cap) && finished > 0)
        rank = std::min(rank, served / finished);
    }
    residual = served / alive;
    for (std::int64_t k = 1; k <= cap; ++k) {
      inverse +=
          (whole_survival(law, k - 1, cap) - whole_survival(law, k, cap)) / static_cast<double>(k);
    }
  }
};

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
    EXPECT_LT(relative_error(whole_survival(*law.as_log_t(), age.count(), cap.count()),
                             row.at("survival")),
              1e-9);
    EXPECT_LT(relative_error(law.mean_residual(age, cap), row.at("mean_residual")), 1e-9);
    EXPECT_LT(relative_error(law.gittins_rank(age, cap, Tokens{1}), row.at("gittins_rank")), 1e-9);
  }
}

TEST(WholeTokens, SkippingSmoothStretchesChangesNothing) {
  const LogT laws[] = {{4.6, 0.75, 3.5}, {7, 2.5, 3.5},   {9, 0.3, 3.5},   {9, 0.001, 3.5},
                       {9, 1e-5, 3.5},   {8, 0.1, 1},     {8, 0.1, 200},   {3, 5, 0.5},
                       {600, 50, 3.5},   {-600, 50, 3.5}, {5, 1e-12, 3.5}, {9.5, 0.05, 10}};
  constexpr std::int64_t kCap = 20'000;
  for (const LogT& law : laws) {
    for (const std::int64_t age : {0, 7, 9'000, 19'998}) {
      SCOPED_TRACE(::testing::Message()
                   << law.mu << " " << law.sigma << " " << law.nu << " " << age);
      if (whole_survival(law, age, kCap) < 1e-280) continue;
      const BruteForce brute(law, age, kCap, 16);
      EXPECT_LT(relative_error(mean_residual(law, age, kCap), brute.residual), 1e-10);
      EXPECT_LT(relative_error(mean_inverse(law, kCap), brute.inverse), 1e-10);
      EXPECT_LT(relative_error(gittins_rank(law, age, kCap, 16), brute.rank), 1e-10);
    }
  }
}

TEST(WholeTokens, AThinTailIsSummedTokenByToken) {
  const LogT law{5.10772, 0.00362007, 200};  // from age 170 on it loses most of itself each token
  for (const std::int64_t age : {150, 165, 170, 180, 200}) {
    const BruteForce brute(law, age, 457, 16);
    EXPECT_LT(relative_error(mean_residual(law, age, 457), brute.residual), 1e-10) << age;
    EXPECT_LT(relative_error(gittins_rank(law, age, 457, 16), brute.rank), 1e-10) << age;
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
