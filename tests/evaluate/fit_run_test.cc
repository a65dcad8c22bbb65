#include "tailrace/evaluate/fit_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/temp_folder.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tailrace/evaluate/fit_document.h"
#include "tailrace/evaluate/fit_plot.h"
#include "tailrace/evaluate/fit_summary.h"

namespace tailrace::evaluate {
namespace {

/// Log-normal lengths; every fifth prompt is cut at 256, every seventh constant.
std::string recording(int prompts, int answers) {
  Rng rng(7);
  std::string text;
  for (int p = 0; p < prompts; ++p) {
    std::string list;
    const double mu = 4 + rng.normal();
    for (int a = 0; a < answers; ++a) {
      double length = p % 7 == 6 ? 40 : std::ceil(std::exp(mu + 0.6 * rng.normal()));
      if (p % 5 == 4) length = std::min(length, 256.0);
      list += (a == 0 ? "" : ",") + std::to_string(static_cast<int>(length));
    }
    text += R"({"id":"p)" + std::to_string(p) + R"(","lengths":[)" + list + "]" +
            (p % 5 == 4 ? R"(,"cap":256)" : "") + "}\n";
  }
  return text;
}

dataset::SampleReader reader_of(std::string text) {
  auto reader = dataset::SampleReader::from_bytes(std::move(text), "test");
  EXPECT_TRUE(reader.has_value());
  return std::move(*reader);
}

/// All that is printed, or the message of the error.
std::string document(std::string text, const FitRunOptions& options) {
  auto reader = reader_of(std::move(text));
  std::string out;
  FitSummary summary(options, 0.05);
  const auto done = fit_run(reader, options, [&](PromptFit prompt) -> Result<void> {
    out += prompt_json(prompt) + "\n";
    summary.add(prompt);
    return {};
  });
  return done ? out + summary_json(summary) + summary_text(summary) : done.error().message;
}

FitSummary summary_of(std::string text, const FitRunOptions& options) {
  auto reader = reader_of(std::move(text));
  FitSummary summary(options, 0.05);
  EXPECT_TRUE(fit_run(reader, options, [&](const PromptFit& prompt) -> Result<void> {
                summary.add(prompt);
                return {};
              }).has_value());
  return summary;
}

TEST(FitRun, GivesTheSameBytesOnAnyNumberOfThreads) {
  const std::string text = recording(60, 60);
  FitRunOptions options;
  options.bootstrap = 10;
  options.holdout = true;
  options.seed = 3;
  const std::string one = document(text, options);
  for (const int threads : {2, 5}) {
    options.threads = threads;
    EXPECT_EQ(document(text, options), one) << threads << " threads";
  }
  options.seed = 4;
  EXPECT_NE(document(text, options), one) << "the seed reaches the bootstrap";
}

TEST(FitRun, HandsPromptsOverInTheOrderOfTheInput) {
  auto reader = reader_of(recording(200, 12));
  FitRunOptions options;
  options.threads = 3;
  int next = 0;
  const auto done = fit_run(reader, options, [&](const PromptFit& prompt) -> Result<void> {
    EXPECT_EQ(prompt.sample.id, "p" + std::to_string(next));
    EXPECT_EQ(prompt.fit.id, prompt.sample.id);
    ++next;
    return {};
  });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(next, 200);
}

TEST(FitRun, ReadsNoPromptAheadWhileEnoughLengthsAreUnderWay) {
  const TempFolder folder;
  const std::string one = folder.file("one.jsonl");
  const std::string two = folder.file("two.jsonl");
  ASSERT_TRUE(core::write_file_atomically(one, recording(1, 20)));
  // Each file is opened when its turn comes: were it read ahead, the second would not be there.
  dataset::SampleReader reader({one, two});
  FitRunOptions options;
  options.threads = 4;
  options.lengths_under_way = 20;
  int prompts = 0;
  const auto done = fit_run(reader, options, [&](const PromptFit&) -> Result<void> {
    ++prompts;
    return core::write_file_atomically(two, recording(1, 20));
  });
  EXPECT_TRUE(done.has_value()) << done.error().message;
  EXPECT_EQ(prompts, 2);
}

TEST(FitRun, PromptsBeforeABadRecordAreHandedOverAndThenTheErrorIsNamed) {
  auto reader = reader_of(recording(40, 12) + "{\"id\":\"bad\",\"lengths\":[0]}\n");
  FitRunOptions options;
  options.threads = 2;
  int prompts = 0;
  const auto done = fit_run(reader, options, [&](const PromptFit&) -> Result<void> {
    ++prompts;
    return {};
  });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(prompts, 40);
  EXPECT_NE(done.error().message.find("line 41: lengths[0]"), std::string::npos);
}

TEST(FitRun, AnErrorOfTheReceiverEndsTheRun) {
  auto reader = reader_of(recording(100, 12));
  FitRunOptions options;
  options.threads = 2;
  int prompts = 0;
  const auto done = fit_run(reader, options, [&](const PromptFit&) -> Result<void> {
    if (++prompts == 5) return fail(ErrorCode::kUnavailable, "disk full");
    return {};
  });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "disk full");
  EXPECT_EQ(prompts, 5);
}

TEST(FitRun, OnlyPromptsThatATestCanJudgeCount) {
  const JudgingRules rules;
  length::SampleShape shape;
  shape.n = 10;
  shape.distinct = 5;
  EXPECT_EQ(exclusion(shape, rules), Exclusion::kNone);
  shape.n = 9;
  EXPECT_EQ(exclusion(shape, rules), Exclusion::kFewLengths);
  shape.n = 100;
  shape.distinct = 4;
  EXPECT_EQ(exclusion(shape, rules), Exclusion::kFewDistinct);
  shape.distinct = 50;
  shape.n_capped = 1;
  EXPECT_EQ(exclusion(shape, rules), Exclusion::kNone);
  shape.n_capped = 2;
  EXPECT_EQ(exclusion(shape, rules), Exclusion::kCapped);
}

TEST(FitRun, ManyLengthsEqualToTheLongestAreSuspectedOfALimit) {
  std::vector<double> lengths;
  for (int i = 1; i <= 30; ++i) lengths.push_back(30.0 * i);
  lengths.insert(lengths.end(), 20, 1024);
  const auto pile = pile_at_top({"p", lengths, {}});
  ASSERT_TRUE(pile.has_value());
  EXPECT_EQ(pile->tokens, 1024);
  EXPECT_EQ(pile->count, 20u);
  EXPECT_FALSE(pile_at_top({"p", lengths, 1024.0})) << "the limit is known";
  std::vector<double> other = lengths;
  other.insert(other.end(), 25, 60);
  EXPECT_FALSE(pile_at_top({"p", other, {}})) << "60 is more frequent";
  EXPECT_FALSE(pile_at_top({"p", {lengths.begin(), lengths.begin() + 32}, {}})) << "two may chance";
  EXPECT_FALSE(pile_at_top({"p", std::vector<double>(20, 7), {}})) << "a constant answer";
  EXPECT_FALSE(pile_at_top({"p", {1, 2, 3, 4, 9, 9, 9}, {}})) << "few lengths";
}

TEST(FitSummary, CountsPassesBySampleSizeAndLeavesOutWhatDoesNotCount) {
  const FitSummary summary =
      summary_of(recording(70, 60) + recording(30, 15) + recording(10, 4), FitRunOptions{});
  EXPECT_EQ(summary.prompts, 110u);
  EXPECT_EQ(summary.few_lengths, 10u);
  EXPECT_GE(summary.few_distinct, 14u) << "every seventh is constant";
  EXPECT_GT(summary.capped, 0u);
  EXPECT_EQ(summary.judged, 100u - summary.few_distinct - summary.capped);
  EXPECT_GE(summary.degenerate, 14u);
  std::size_t by_size = 0;
  for (const SizeClass& size : summary.sizes) by_size += size.prompts;
  EXPECT_EQ(by_size, summary.judged);
  const FamilySummary& log_normal = summary.families[1];
  ASSERT_EQ(log_normal.family, length::Family::kLogNormal);
  EXPECT_EQ(log_normal.passes.naive.tested, summary.judged);
  EXPECT_GT(*log_normal.passes.naive.rate(), 0.97) << "the law that made them";
  EXPECT_LE(log_normal.passes.table.passed, log_normal.passes.naive.passed);
  EXPECT_GT(*log_normal.passes.table.rate(), 0.8);
  EXPECT_EQ(log_normal.passes.bootstrap.tested, 0u) << "none was asked for";
  EXPECT_LT(*summary.families[4].passes.naive.rate(), 0.6) << "exponential";
  std::size_t best = 0;
  for (const FamilySummary& family : summary.families) best += family.best_by_aic;
  EXPECT_EQ(best, summary.judged);
}

TEST(FitSummary, HeldOutScoresAreOverPromptsThatEveryLawCouldFit) {
  FitRunOptions options;
  options.holdout = true;
  const FitSummary summary = summary_of(recording(35, 60) + recording(5, 20), options);
  std::size_t long_enough = 0;
  for (const SizeClass& size : summary.sizes) long_enough += size.from >= 50 ? size.prompts : 0;
  EXPECT_LT(long_enough, summary.judged);
  EXPECT_EQ(summary.holdout_prompts + summary.holdout_incomplete, long_enough);
  ASSERT_FALSE(summary.holdout.empty());
  EXPECT_EQ(summary.holdout.back().law, "empirical");
  for (const HoldoutSummary& law : summary.holdout) {
    EXPECT_EQ(law.mean_error.count(), summary.holdout_prompts) << law.law;
  }
}

TEST(Spread, IsExactForFewAndCloseForManyValuesInBoundedMemory) {
  Spread few;
  for (const double v : {4.0, 1.0, 3.0, 2.0, 10.0}) few.add(v);
  EXPECT_EQ(*few.quantile(0.5), 3);
  EXPECT_EQ(*few.mean(), 4);
  Spread many;
  for (int i = 0; i < 300'000; ++i) many.add(i);
  EXPECT_NEAR(*many.quantile(0.5), 150'000, 3'000);
  EXPECT_NEAR(*many.quantile(0.9), 270'000, 3'000);
  EXPECT_FALSE(Spread().mean().has_value());
}

TEST(FitDocument, ADegenerateFitHasNullValuesAndAReason) {
  const std::string text =
      document(R"({"id":"\"odd\"\u0001","lengths":[5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,1,2,3,4]})", {});
  EXPECT_NE(
      text.find(
          R"({"id":"\"odd\"\u0001","n":20,"n_capped":0,"cap":null,"suspected_cap":5,"degenerate":true)"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find(R"("log-t":{"mu":null,"sigma":null,"nu":null,"at_bound":false,"loglik":null)"),
      std::string::npos);
  EXPECT_NE(text.find(R"("degenerate":"16 of 20)"), std::string::npos);
}

TEST(FitFigure, BarsAreSharesAndAllLawsAreDrawn) {
  auto reader = reader_of(recording(5, 60));
  std::vector<PromptFit> prompts;
  ASSERT_TRUE(fit_run(reader, {}, [&](PromptFit prompt) -> Result<void> {
                prompts.push_back(std::move(prompt));
                return {};
              }).has_value());
  ASSERT_EQ(prompts.size(), 5u);
  for (const PromptFit& prompt : prompts) {
    const report::Figure figure = fit_figure(prompt);
    double total = 0;
    for (const double height : figure.bars.heights) total += height;
    EXPECT_NEAR(total, 1, 1e-9);
    EXPECT_EQ(figure.bars.edges.size(), figure.bars.heights.size() + 1);
    std::size_t curves = 0;
    for (const report::FigureLine& line : figure.lines) {
      if (!line.label.empty()) ++curves;
      for (const double y : line.y) EXPECT_TRUE(y >= 0 && y <= 1);
    }
    EXPECT_EQ(curves, 6u);
    EXPECT_EQ(figure.dots.empty(), prompt.fit.shape.n_capped == 0) << "the legend explains dots";
  }
}

}  // namespace
}  // namespace tailrace::evaluate
