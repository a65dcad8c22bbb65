#include "predict/histogram_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "predict/prompt_memory.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

Bins flat() {
  Bins bins;
  bins.fill(1.0F / static_cast<float>(kBins));
  return bins;
}

double sum(const Bins& bins) {
  return std::accumulate(bins.begin(), bins.end(), 0.0);
}

TEST(Histogram, ShowsEachModeOfATwoSidedGroup) {
  Histogram h;
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) h.add(rng.below(4) == 0 ? 400 : 1, 1);
  Bins law;
  h.shrink_to(flat(), 20, law);
  EXPECT_NEAR(sum(law), 1, 1e-5);
  EXPECT_NEAR(cumulative(law, 1), 0.75, 0.04);
  EXPECT_NEAR(cumulative(law, 440) - cumulative(law, 360), 0.25, 0.04);
}

TEST(Histogram, YoungGroupSaysWhatItsParentSays) {
  Histogram h;
  Bins law;
  h.shrink_to(flat(), 20, law);
  EXPECT_EQ(law, flat());
  h.add(100, 1);
  h.shrink_to(flat(), 20, law);
  EXPECT_NEAR(static_cast<double>(law[0]), 20.0 / 21 / kBins, 1e-6);
}

TEST(Histogram, CutAnswersCountByHowFarTheyCame) {
  // Lengths of median 300; every second answer is cut somewhere, most of them before its end.
  Histogram h;
  Rng rng(2);
  for (int i = 0; i < 7000; ++i) {
    const double length = 300 * std::exp(0.6 * rng.normal());
    const double cut = 250 * std::exp(0.5 * rng.normal());
    if (rng.below(2) == 0 && cut < length) {
      h.add_cut(cut, 1);
    } else {
      h.add(length, 1);
    }
  }
  Bins law;
  h.shrink_to(flat(), 20, law);
  EXPECT_NEAR(sum(law), 1, 1e-4);
  EXPECT_NEAR(std::log(quantile(law, 0.5) / 300), 0, 0.06);
  EXPECT_NEAR(std::log(quantile(law, 0.9) / 300), 0.6 * 1.2816, 0.1);
}

TEST(Histogram, AllCutAtOneCapSayNothingOfWhatIsBeyond) {
  Histogram h;
  for (int i = 0; i < 1000; ++i) h.add_cut(500, 1);
  Bins parent;
  log_t_bins(6, 1, parent);
  Bins law;
  h.shrink_to(parent, 20, law);
  EXPECT_LT(cumulative(law, 480), 0.03);
  // Beyond the cap it is the parent's law, given that it got there.
  const double beyond = 1 - cumulative(parent, 512);
  EXPECT_NEAR(1 - cumulative(law, 1024), (1 - cumulative(parent, 1024)) / beyond, 0.05);
}

TEST(Histogram, ForgetsAtOnceWhenItsAnswersChange) {
  Histogram h;
  Rng rng(3);
  for (int i = 0; i < 4000; ++i) h.add(100 * std::exp(0.3 * rng.normal()), 1);
  for (int i = 0; i < 400; ++i) h.add(800 * std::exp(0.3 * rng.normal()), 1);
  Bins law;
  h.shrink_to(flat(), 20, law);
  EXPECT_GT(1 - cumulative(law, 400), 0.25);  // without drift: 400 of 4400
}

TEST(Histogram, DoesNotTakeChanceForDrift) {
  int faded = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Histogram h;
    Rng rng(seed);
    float before = 0;
    for (int i = 0; i < 3000; ++i) {
      h.add(200 * std::exp(0.7 * rng.student_t(3.5)), 1);
      faded += h.total < before ? 1 : 0;
      before = h.total;
    }
  }
  EXPECT_LE(faded, 3);
}

TEST(HistogramTable, InventedNamesDoNotEvictAGroupInUse) {
  HistogramTable table;
  for (int i = 0; i < 300; ++i) table.find_or_claim(7)->add(50, 1);
  Rng rng(4);
  for (int i = 0; i < 200'000; ++i) {
    Histogram* stranger = table.find_or_claim(rng.next_u64() | 1U);
    if (stranger != nullptr) stranger->add(1, 1);
    if (i % 1000 == 0) table.find_or_claim(7)->add(50, 1);
  }
  ASSERT_NE(table.find(7), nullptr);
  EXPECT_GT(table.find(7)->total, 400);
}

TEST(HistogramTable, ImageHoldsEverything) {
  HistogramTable table;
  Rng rng(5);
  for (int i = 0; i < 3000; ++i) {
    Histogram* h = table.find_or_claim(1 + rng.below(40));
    ASSERT_NE(h, nullptr);
    if (i % 3 == 0) {
      h->add_cut(static_cast<double>(1 + rng.below(500)), 1);
    } else {
      h->add(static_cast<double>(1 + rng.below(500)), 0.5F);
    }
  }
  const auto image_of = [](const HistogramTable& t) {
    ImageWriter out("table", 1);
    t.write(out);
    return std::move(out).finish();
  };
  const std::string image = image_of(table);
  auto in = ImageReader::open(image, "table", 1);
  ASSERT_TRUE(in);
  HistogramTable loaded;
  ASSERT_TRUE(loaded.read(*in));
  EXPECT_TRUE(in->complete());
  EXPECT_EQ(image_of(loaded), image);
}

TEST(PromptMemory, KnowsWhatAPromptGotAndForgetsItsOldAnswers) {
  PromptMemory memory;
  Bins law = flat();
  EXPECT_FALSE(memory.law(9, flat(), 6, law));
  for (int i = 0; i < 100; ++i) memory.add(9, bin_of(1000));
  for (std::size_t i = 0; i < PromptMemory::kAnswers; ++i) memory.add(9, bin_of(60));
  ASSERT_TRUE(memory.law(9, flat(), 6, law));
  EXPECT_NEAR(sum(law), 1, 1e-5);
  EXPECT_GT(cumulative(law, 70) - cumulative(law, 50), 0.8);
  EXPECT_FALSE(memory.law(10, flat(), 6, law));
}

TEST(PromptMemory, RepeatedPromptsOutliveAFloodOfOthers) {
  PromptMemory memory;
  for (int i = 0; i < 30; ++i) memory.add(9, bin_of(60));
  Rng rng(6);
  for (int i = 0; i < 100'000; ++i) memory.add(rng.next_u64() | 1U, 3);
  Bins law;
  EXPECT_TRUE(memory.law(9, flat(), 6, law));
}

}  // namespace
}  // namespace tailrace::predict
