#include "tailrace/tune/observation_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::tune {
namespace {

using Cells = std::vector<std::string>;

const Cells kHeader{"time_s", "pod", "rate", "input", "output", "ttft_ms", "itl_ms"};

ObservationTable table(const Cells& header = kHeader) {
  return ObservationTable::open(header).value();
}

std::string refusal(const Cells& header) {
  const auto opened = ObservationTable::open(header);
  return opened ? "accepted" : opened.error().message;
}

std::string refusal(ObservationTable& table, const Cells& cells) {
  const auto added = table.add(cells);
  return added ? "accepted" : added.error().message;
}

TEST(ObservationTable, GivesACycleWhenALaterRowEndsIt) {
  auto rows = table();
  EXPECT_FALSE(*rows.add(Cells{"60", "a", "1", "100", "50", "20", "8"}));
  EXPECT_FALSE(*rows.add(Cells{"60", "b", "2", "100", "50", "21", "9"}));
  const auto ended = *rows.add(Cells{"120", "a", "3", "100", "50", "22", "10"});
  ASSERT_TRUE(ended);
  ASSERT_EQ(ended->size(), 2U);
  EXPECT_EQ((*ended)[0].pod, "a");
  EXPECT_EQ((*ended)[1].pod, "b");
  EXPECT_DOUBLE_EQ((*ended)[1].time_s, 60);
  EXPECT_DOUBLE_EQ(*(*ended)[1].rate_per_s, 2);
  EXPECT_DOUBLE_EQ(*(*ended)[1].itl_ms, 9);
  const Cycle last = rows.finish();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_DOUBLE_EQ(*last[0].ttft_ms, 22);
}

TEST(ObservationTable, WithoutRowsThereIsNoCycle) {
  EXPECT_TRUE(table().finish().empty());
}

TEST(ObservationTable, TakesColumnsInAnyOrderAndTheOptionalOnes) {
  auto rows = table({"itl_per_sequence_error", "itl_per_sequence_ms", "waiting", "prefix_hit",
                     "input_cv", "output_cv", "requests", "running", "itl_ms", "ttft_ms", "output",
                     "input", "rate", "pod", "time_s"});
  ASSERT_TRUE(rows.add(Cells{"0.02", "0.3", "1", "0.5", "0.1", "0.9", "600", "12", "8", "20", "50",
                             "100", "2", "a", "60"}));
  const Cycle cycle = rows.finish();
  ASSERT_EQ(cycle.size(), 1U);
  EXPECT_DOUBLE_EQ(*cycle[0].itl_per_sequence_error, 0.02);
  EXPECT_DOUBLE_EQ(*cycle[0].itl_per_sequence_ms, 0.3);
  EXPECT_DOUBLE_EQ(*cycle[0].waiting, 1);
  EXPECT_DOUBLE_EQ(*cycle[0].prefix_hit, 0.5);
  EXPECT_DOUBLE_EQ(*cycle[0].input_cv, 0.1);
  EXPECT_DOUBLE_EQ(*cycle[0].output_cv, 0.9);
  EXPECT_DOUBLE_EQ(*cycle[0].requests, 600);
  EXPECT_DOUBLE_EQ(*cycle[0].running, 12);
  EXPECT_DOUBLE_EQ(*cycle[0].output_tokens, 50);
  EXPECT_DOUBLE_EQ(cycle[0].time_s, 60);
}

TEST(ObservationTable, AnEmptyCellOrNanIsMissingAndNeverZero) {
  auto rows = table();
  ASSERT_TRUE(rows.add(Cells{"60", "a", "", "NaN", " nan ", "20", "8"}));
  const Cycle cycle = rows.finish();
  EXPECT_FALSE(cycle[0].rate_per_s);
  EXPECT_FALSE(cycle[0].input_tokens);
  EXPECT_FALSE(cycle[0].output_tokens);
  EXPECT_TRUE(cycle[0].ttft_ms);
}

TEST(ObservationTable, WhatCannotTeachIsForTheEstimatorToRefuse) {
  auto rows = table();
  ASSERT_TRUE(rows.add(Cells{"60", "a", "-1", "+Inf", "-inf", "1e300", "0"}));
  const Cycle cycle = rows.finish();
  EXPECT_DOUBLE_EQ(*cycle[0].rate_per_s, -1);
  EXPECT_DOUBLE_EQ(*cycle[0].input_tokens, HUGE_VAL);
  EXPECT_DOUBLE_EQ(*cycle[0].output_tokens, -HUGE_VAL);
  EXPECT_TRUE(unusable(cycle[0]));
}

TEST(ObservationTable, NamesColumnsThatAreMissingUnknownOrDouble) {
  EXPECT_NE(refusal({"time_s", "pod"}).find("rate is missing"), std::string::npos)
      << refusal({"time_s", "pod"});
  auto header = kHeader;
  header.emplace_back("batch");
  EXPECT_NE(refusal(header).find("\"batch\""), std::string::npos) << refusal(header);
  header.back() = "runing";
  EXPECT_NE(refusal(header).find("did you mean running?"), std::string::npos) << refusal(header);
  header.back() = "rate";
  EXPECT_NE(refusal(header).find("rate is there twice"), std::string::npos) << refusal(header);
}

TEST(ObservationTable, NamesColumnAndValueOfABadCell) {
  auto rows = table();
  EXPECT_NE(refusal(rows, {"60", "a", "one", "100", "50", "20", "8"}).find("rate: \"one\""),
            std::string::npos);
  EXPECT_NE(refusal(rows, {"", "a", "1", "100", "50", "20", "8"}).find("time_s: \"\""),
            std::string::npos);
  EXPECT_NE(refusal(rows, {"nan", "a", "1", "100", "50", "20", "8"}).find("time_s"),
            std::string::npos);
  EXPECT_NE(refusal(rows, {"inf", "a", "1", "100", "50", "20", "8"}).find("time_s"),
            std::string::npos);
  EXPECT_NE(refusal(rows, {"60", "a", "1", "100"}).find("4 cells"), std::string::npos);
  EXPECT_NE(refusal(rows, {"60", std::string(2'000, 'x'), "1", "1", "1", "1", "1"}).find("pod"),
            std::string::npos);
}

TEST(ObservationTable, TimeNeverGoesBack) {
  auto rows = table();
  ASSERT_TRUE(rows.add(Cells{"60", "a", "1", "100", "50", "20", "8"}));
  const auto why = refusal(rows, {"59", "a", "1", "100", "50", "20", "8"});
  EXPECT_NE(why.find("59 comes after 60; sort"), std::string::npos) << why;
}

TEST(ObservationTable, APodSpeaksOnceInACycle) {
  auto rows = table();
  ASSERT_TRUE(rows.add(Cells{"60", "a", "1", "100", "50", "20", "8"}));
  ASSERT_TRUE(rows.add(Cells{"60", "b", "1", "100", "50", "20", "8"}));
  const auto why = refusal(rows, {"60", "a", "1", "100", "50", "20", "8"});
  EXPECT_NE(why.find("pod: \"a\" has two rows of the time 60; keep one"), std::string::npos) << why;
  EXPECT_TRUE(rows.add(Cells{"75", "a", "1", "100", "50", "20", "8"}));
}

TEST(ObservationTable, ACycleHasABound) {
  auto rows = table();
  const Cells row{"60", "", "1", "100", "50", "20", "8"};
  for (std::size_t i = 0; i < ObservationTable::kCycleRowsMax; ++i) ASSERT_TRUE(rows.add(row));
  const auto added = rows.add(row);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace tailrace::tune
