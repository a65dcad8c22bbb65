#include "tailrace/evaluate/baselines.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/support/made_rows.h"
#include "tailrace/evaluate/prequential.h"

namespace tailrace::evaluate {
namespace {

using testing::essays_and_words;
using testing::make_row;

Scores scores_of(std::string_view name, std::span<const Row> rows, std::size_t skip = 0) {
  const auto predictor = make_contestant(*find_contestant(name), rows);
  PrequentialOptions options;
  options.skip = skip;
  return prequential(*predictor, rows, options).scores;
}

TEST(Baselines, TheGlobalHistogramLearnsAnyLaw) {
  // Two humps; no smooth law would do.
  Rng rng(5);
  std::vector<Row> rows;
  double entropy = 0;
  for (int i = 0; i < 6000; ++i) {
    const bool low = rng.below(4) == 0;
    const auto length = static_cast<std::int64_t>((low ? 10 : 100) + rng.below(low ? 10 : 100));
    rows.push_back(make_row(length));
    entropy -= low ? std::log(0.25 / 10) : std::log(0.75 / 100);
  }
  const Scores s = scores_of("global", rows, 3000);
  EXPECT_GT(s.log_score, -entropy / 6000 - 0.08);
  EXPECT_NEAR(s.coverage[2], 0.9, 0.02);
}

TEST(Baselines, CutAnswersTeachThatOthersAreLonger) {
  std::vector<Row> rows;
  Rng rng(6);
  for (int i = 0; i < 4000; ++i) {
    Row row = make_row(testing::drawn_length(200, 0.5, rng));
    const auto patience = testing::drawn_length(250, 0.5, rng);
    if (patience < row.truth.length.count()) row.truth = {Tokens(patience), true};
    rows.push_back(row);
  }
  const auto global = make_global_baseline();
  for (const Row& row : rows) global->observe(row.features, row.truth);
  const double median = global->predict(std::span(&rows[0].features, 1)).front().law.median();
  EXPECT_NEAR(median, 200, 12);
}

TEST(Baselines, TheCapIsAnAtom) {
  std::vector<Row> rows;
  Rng rng(7);
  for (int i = 0; i < 3000; ++i) {
    rows.push_back(make_row(testing::drawn_length(100, 0.5, rng), "m", "p", 100));
  }
  const auto global = make_global_baseline();
  for (const Row& row : rows) global->observe(row.features, row.truth);
  const auto law = global->predict(std::span(&rows[0].features, 1)).front().law;
  EXPECT_NEAR(law.survival(99), 0.5, 0.03);
}

TEST(Baselines, GroupsLearnWhatTellsThemApart) {
  Rng rng(8);
  std::vector<Row> by_route;
  std::vector<Row> by_prompt;
  for (int i = 0; i < 2000; ++i) {
    const bool terse = rng.below(2) == 0;
    const auto length = testing::drawn_length(terse ? 10 : 300, 0.3, rng);
    by_route.push_back(make_row(length, terse ? "terse" : "verbose"));
    by_prompt.push_back(make_row(length, "m", terse ? std::string(2000, 'a') : "short"));
  }
  EXPECT_GT(scores_of("route", by_route).tau, 0.4);
  EXPECT_GT(scores_of("route", by_route).log_score, scores_of("global", by_route).log_score + 0.4);
  EXPECT_GT(scores_of("prompt-length", by_prompt).tau, 0.4);
  EXPECT_GT(scores_of("prompt-length", by_prompt).log_score,
            scores_of("global", by_prompt).log_score + 0.4);
}

TEST(Baselines, MaxTokensOrdersByTheLimit) {
  std::vector<Row> rows;
  for (std::int64_t i = 1; i <= 50; ++i) rows.push_back(make_row(i, "m", "p", 100 + i));
  EXPECT_DOUBLE_EQ(scores_of("max-tokens", rows).tau, 1);
}

TEST(Baselines, TheOracleIsPerfect) {
  const auto rows = essays_and_words(500, 3, 1);
  const Scores s = scores_of("oracle", rows);
  EXPECT_DOUBLE_EQ(s.tau, 1);
  EXPECT_NEAR(s.log_score, 0, 1e-9);
}

TEST(Baselines, ThePromptOracleBeatsWhatSeesNoPromptButIsNotToldTheAnswerItself) {
  Rng rng(2);
  std::vector<Row> rows;
  for (int i = 0; i < 3000; ++i) {
    const auto prompt = rng.below(100);
    rows.push_back(make_row(testing::drawn_length(20.0 * static_cast<double>(1 + prompt), 0.3, rng),
                            "m", "prompt " + std::to_string(prompt)));
  }
  const Scores told = scores_of("prompt-oracle", rows);
  EXPECT_GT(told.log_score, scores_of("global", rows).log_score + 0.5);
  EXPECT_LT(told.log_score, -4) << "nobody can know a draw with this much spread";
  EXPECT_NEAR(told.coverage[2], 0.9, 0.05);
}

TEST(Baselines, WhatIsSavedPredictsTheSameWhenLoaded) {
  const auto rows = essays_and_words(300, 3, 4);
  for (const char* name : {"global", "prompt-length", "route"}) {
    const auto learned = make_contestant(*find_contestant(name), rows);
    for (const Row& row : rows) learned->observe(row.features, row.truth);
    const auto loaded = make_contestant(*find_contestant(name), rows);
    ASSERT_TRUE(loaded->load(learned->save())) << name;
    for (const Row& row : rows) {
      const auto ask = std::span(&row.features, 1);
      EXPECT_EQ(learned->predict(ask).front().law, loaded->predict(ask).front().law) << name;
    }
    EXPECT_EQ(loaded->load("damaged").error().code, ErrorCode::kDataLoss) << name;
  }
}

TEST(Baselines, EveryContestantIsFoundUnderItsName) {
  const auto rows = essays_and_words(3, 1, 1);
  for (const Contestant& c : contestants()) {
    EXPECT_EQ(find_contestant(c.name), &c);
    EXPECT_EQ(make_contestant(c, rows)->name(), c.name);
  }
  EXPECT_EQ(find_contestant("crystal-ball"), nullptr);
}

TEST(Baselines, TheOnlinePredictorReadsWhatTheHistogramsCannot) {
  const auto rows = essays_and_words(1500, 3, 11);
  EXPECT_GT(scores_of("online", rows).tau, scores_of("route", rows).tau + 0.3);
}

}  // namespace
}  // namespace tailrace::evaluate
