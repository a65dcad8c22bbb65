#include "tailrace/evaluate/prequential.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/support/made_rows.h"
#include "tailrace/evaluate/baselines.h"
#include "tailrace/evaluate/set_report.h"

namespace tailrace::evaluate {
namespace {

using testing::essays_and_words;
using testing::make_row;

/// Says one law whatever it is asked, and counts what it is told.
class OneLaw final : public predict::Predictor {
 public:
  explicit OneLaw(length::LengthLaw law) : law_(std::move(law)) {}
  std::string_view name() const override { return "one-law"; }
  std::vector<predict::Prediction> predict(std::span<const predict::RequestFeatures> b) override {
    return std::vector<predict::Prediction>(b.size(), {law_, true});
  }
  void observe(const predict::RequestFeatures&, const predict::Observation&) override {
    ++observed;
  }
  std::string save() const override { return "four"; }
  Result<void> load(std::string_view) override { return {}; }

  int observed = 0;

 private:
  length::LengthLaw law_;
};

/// Lengths drawn from the log-normal law (median `median`, sigma 0.8), cut at `cap`.
std::vector<Row> drawn(double median, std::int64_t cap, std::size_t count) {
  Rng rng(9);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < count; ++i) {
    rows.push_back(make_row(testing::drawn_length(median, 0.8, rng), "m", "p", cap));
  }
  return rows;
}

Evaluation judged_by_truth(double median, std::int64_t cap) {
  OneLaw truth(*length::LengthLaw::log_normal(std::log(median), 0.8));
  return prequential(truth, drawn(median, cap, 20'000), {});
}

TEST(Prequential, APerfectLawHasAUniformTransformEvenOnFewWholeTokensAndAtTheCap) {
  for (const auto& [median, cap] : {std::pair{300.0, 4096}, {3.0, 4096}, {300.0, 350}}) {
    const Scores s = judged_by_truth(median, cap).scores;
    double chi_square = 0;  // 19 degrees of freedom: 43.8 at one in a thousand
    for (const double share : s.pit) {
      const double expected = 20'000.0 / kPitBins;
      chi_square += std::pow(20'000 * share - expected, 2) / expected;
    }
    EXPECT_LT(chi_square, 43.8) << median << " capped at " << cap;
    for (std::size_t c = 0; c < kCoverages.size(); ++c) {
      EXPECT_NEAR(s.coverage[c], kCoverages[c], 0.012) << median << " capped at " << cap;
    }
  }
}

TEST(Prequential, AWrongLawScoresLowerAndItsTransformIsNotFlat) {
  const auto rows = drawn(300, 4096, 5000);
  OneLaw right(*length::LengthLaw::log_normal(std::log(300), 0.8));
  OneLaw narrow(*length::LengthLaw::log_normal(std::log(300), 0.3));
  const Scores good = prequential(right, rows, {}).scores;
  const Scores bad = prequential(narrow, rows, {}).scores;
  EXPECT_GT(good.log_score, bad.log_score + 0.3);
  EXPECT_LT(bad.coverage[2], 0.6);
  EXPECT_GT(bad.pit.front(), 0.1);
}

TEST(Prequential, ScoresByHandOnThreeRows) {
  const double edges[] = {10, 20};
  const double masses[] = {0.5, 0.5, 0};
  OneLaw law(*length::LengthLaw::binned(edges, masses));
  std::vector<Row> rows{make_row(5), make_row(15), make_row(12)};
  rows[2].truth.censored = true;
  const Evaluation e = prequential(law, rows, {});
  EXPECT_EQ(law.observed, 3);
  EXPECT_EQ(e.image_bytes, 4);
  EXPECT_EQ(e.scores.rows, 3);
  EXPECT_EQ(e.scores.complete, 2);
  // A bin of 10 tokens spreads its half evenly; at least 12 means beyond 11.
  EXPECT_NEAR(e.scores.log_score, (2 * std::log(0.05) + std::log(0.45)) / 3, 1e-12);
  EXPECT_NEAR(e.scores.pinball[0], (0.5 * 5 + 0.5 * 5) / 2, 1e-12);
  EXPECT_NEAR(e.scores.pinball[1], (0.1 * 13 + 0.1 * 3) / 2, 1e-12);
}

TEST(Prequential, SkippedRowsAreLearnedButNotScored) {
  OneLaw law(*length::LengthLaw::log_normal(5, 1));
  PrequentialOptions options;
  options.skip = 60;
  const Evaluation e = prequential(law, drawn(100, 4096, 150), options);
  EXPECT_EQ(law.observed, 150);
  EXPECT_EQ(e.scores.rows, 90);
  ASSERT_EQ(e.curve.size(), 2);
  EXPECT_EQ(e.curve[0].scores.rows, 40);  // rows 60 to 99
  EXPECT_EQ(e.curve[1].to, 150);
}

TEST(Prequential, TheSameSeedGivesTheSameBytes) {
  const auto rows = essays_and_words(600, 2, 3);
  const auto report = [&](std::uint64_t seed) {
    SetReport r;
    r.set = "made";
    PrequentialOptions options;
    options.seed = seed;
    const auto predictor = make_contestant(*find_contestant("online"), rows);
    r.evaluations.push_back(prequential(*predictor, rows, options));
    return to_json(std::span(&r, 1)) + to_text(r, true) + to_html(std::span(&r, 1));
  };
  EXPECT_EQ(report(1), report(1));
  EXPECT_NE(report(1), report(2)) << "the place inside a token is drawn";
}

TEST(Prequential, RepeatedAnswersJudgeCentreAndSpreadOfTheFirstPrediction) {
  Rng rng(12);
  std::vector<Row> rows;
  for (int prompt = 0; prompt < 40; ++prompt) {
    const std::string name = "prompt " + std::to_string(prompt);
    const double sigma = prompt % 2 == 0 ? 0.1 : 1.0;
    const double median = 50 * (1 + prompt);
    for (int i = 0; i < 40; ++i) {
      rows.push_back(make_row(testing::drawn_length(median, sigma, rng), "m", name, 1 << 20));
    }
  }
  const auto told = make_prompt_oracle(rows);
  const auto blind = make_global_baseline();
  const auto good = prequential(*told, rows, {}).repeats;
  const auto poor = prequential(*blind, rows, {}).repeats;
  ASSERT_TRUE(good && poor);
  EXPECT_EQ(good->groups, 40);
  EXPECT_EQ(good->spread_groups, 40);
  EXPECT_GT(good->r2_mu, 0.95);
  EXPECT_GT(good->r2_spread, 0.7);
  EXPECT_LT(poor->r2_mu, 0.1);
  EXPECT_LT(poor->r2_spread, 0.1);
}

TEST(Prequential, CostIsMeasuredOnlyWithAClockAndBelongsToTheCalls) {
  OneLaw law(*length::LengthLaw::log_normal(5, 1));
  const auto rows = drawn(100, 4096, 10);
  EXPECT_FALSE(prequential(law, rows, {}).cost.has_value());
  double now = 0;
  PrequentialOptions options;
  options.cpu_seconds = [&] { return now += 1e-6; };  // a call begins and ends one tick apart
  const auto cost = prequential(law, rows, options).cost;
  ASSERT_TRUE(cost.has_value());
  EXPECT_NEAR(cost->predict_us, 1, 1e-9);
  EXPECT_NEAR(cost->observe_us, 1, 1e-9);
}

TEST(Report, EscapesTheNamesThatFilesBring) {
  SetReport r;
  r.set = "<script>alert(1)</script>";
  LeaveOneOut left;
  left.models.push_back({"<img src=x onerror=alert(2)>", 10, 0.1, 0.2, 0.3});
  r.left_out.push_back(left);
  const std::string html = to_html(std::span(&r, 1));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
}

}  // namespace
}  // namespace tailrace::evaluate
