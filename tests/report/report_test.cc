#include <gtest/gtest.h>

#include "tailrace/report/length_histogram.h"
#include "tailrace/report/summary.h"
#include "tailrace/report/table.h"

namespace tailrace::report {
namespace {

TEST(Summary, InterpolatesBetweenOrderStatistics) {
  const auto summary = summarise({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(summary->mean, 2.5);
  EXPECT_DOUBLE_EQ(summary->p50, 2.5);
  EXPECT_DOUBLE_EQ(summary->p90, 3.7);
  EXPECT_DOUBLE_EQ(summary->max, 4);
  EXPECT_DOUBLE_EQ(summarise({7})->p99, 7);
  EXPECT_FALSE(summarise({}));
}

TEST(PairedRatio, OfAConstantFactorIsThatFactorWithoutSpread) {
  const std::vector<double> b{1, 5, 20, 300};
  std::vector<double> a;
  for (const double x : b) a.push_back(3 * x);
  const auto ratio = paired_ratio_of_means(a, b, 0.95, 500, Rng(1));
  EXPECT_NEAR(ratio->low, 3, 1e-12);
  EXPECT_NEAR(ratio->estimate, 3, 1e-12);
  EXPECT_NEAR(ratio->high, 3, 1e-12);
}

TEST(PairedRatio, HoldsOneWhereTheRunsDifferByChanceAlone) {
  Rng rng(5);
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 200; ++i) {
    a.push_back(rng.exponential());
    b.push_back(rng.exponential());
  }
  const auto ratio = paired_ratio_of_means(a, b, 0.95, 2000, Rng(1));
  EXPECT_LT(ratio->low, 1);
  EXPECT_GT(ratio->high, 1);
  EXPECT_LT(ratio->low, ratio->estimate);
  EXPECT_LT(ratio->estimate, ratio->high);
  EXPECT_FALSE(paired_ratio_of_means(a, std::span(b).first(3), 0.95, 10, Rng(1)));
}

TEST(Table, AlignsWhatItIsTold) {
  Table table({{"name", Table::Align::kLeft}, {"value"}});
  table.add_row({"a", "1"});
  table.add_row({"longer", "1234567"});
  EXPECT_EQ(table.text(),
            "name      value\n"
            "------  -------\n"
            "a             1\n"
            "longer  1234567\n");
}

TEST(Figure, KeepsThreeDigits) {
  EXPECT_EQ(figure(0.012345), "0.0123");
  EXPECT_EQ(figure(12.345), "12.3");
  EXPECT_EQ(figure(12345), "12345");
  EXPECT_EQ(figure(0), "0.00");
  EXPECT_EQ(figure(0.0 / 0.0 * 0), "-");
}

TEST(LengthHistogram, BinsByPowersOfTwoAndShowsEveryCount) {
  LengthHistogram histogram;
  for (const int length : {1, 2, 3, 3, 8}) histogram.add(length);
  const auto bins = histogram.bins();
  ASSERT_EQ(bins.size(), 4u);
  EXPECT_EQ(bins[1].low, 2);
  EXPECT_EQ(bins[1].high, 3);
  EXPECT_EQ(bins[1].count, 3u);
  EXPECT_EQ(bins[2].count, 0u);
  EXPECT_DOUBLE_EQ(histogram.largest_share(), 0.4);
  EXPECT_NE(histogram.text(10).find("            1       1  20.0% ####\n"), std::string::npos)
      << histogram.text(10);
}

}  // namespace
}  // namespace tailrace::report
