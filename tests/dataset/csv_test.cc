#include "tailrace/dataset/csv.h"

#include <gtest/gtest.h>

namespace tailrace::dataset {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Result<Rows> rows_of(std::string text) {
  auto csv = CsvReader::open(*LineReader::from_bytes(std::move(text), "t.csv"));
  if (!csv) return fail(csv.error());
  Rows rows{csv->header()};
  std::vector<std::string> cells;
  for (;;) {
    const auto more = csv->next(cells);
    if (!more) return fail(more.error());
    if (!*more) return rows;
    rows.push_back(cells);
  }
}

TEST(Csv, QuotesHoldCommasQuotesAndLineEnds) {
  const auto rows =
      rows_of("\xef\xbb\xbfid, length\r\n\"a,\"\"b\"\"\",1\r\n\r\n\"two\r\nlines\",2\r\n");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(*rows, (Rows{{"id", "length"}, {"a,\"b\"", "1"}, {"two\nlines", "2"}}));
}

TEST(Csv, EmptyCellsAreCells) {
  EXPECT_EQ(*rows_of("a,b,c\n,,\n\"\",1,\n"), (Rows{{"a", "b", "c"}, {"", "", ""}, {"", "1", ""}}));
}

std::string header_of(int columns) {
  std::string header = "c0";
  for (int i = 1; i < columns; ++i) header += ",c" + std::to_string(i);
  return header + "\n";
}

// Comparing each name with all others before it would take minutes.
TEST(Csv, AHeaderOfAHundredThousandColumnsIsReadAtOnceAndALongerOneRefused) {
  const auto rows = rows_of(header_of(100'000));
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->front().size(), 100'000u);
  const auto wider = rows_of(header_of(100'001));
  ASSERT_FALSE(wider.has_value());
  EXPECT_NE(wider.error().message.find("line 1: more than 100000 columns"), std::string::npos)
      << wider.error().message;
}

TEST(Csv, ARowStopsAtTheHeadersWidth) {
  auto csv =
      CsvReader::open(*LineReader::from_bytes("a,b\n" + std::string(1'000'000, ','), "t.csv"));
  ASSERT_TRUE(csv.has_value());
  std::vector<std::string> cells;
  const auto row = csv->next(cells);
  ASSERT_FALSE(row.has_value());
  EXPECT_NE(row.error().message.find("line 2: more than 2 cells"), std::string::npos);
  EXPECT_EQ(cells.size(), 2u) << "cells beyond the header's were kept";
}

TEST(Csv, AQuotedCellOfEmptyLinesEndsAtTheLimitOfARecord) {
  const auto rows = rows_of("a\n\"" + std::string(LineReader::kMaxLineBytes + 10, '\n') + "\"\n");
  ASSERT_FALSE(rows.has_value());
  EXPECT_NE(rows.error().message.find("line 2: a quote that opens here"), std::string::npos);
}

struct Bad {
  const char* text;
  const char* words;
};

class CsvErrors : public testing::TestWithParam<Bad> {};

TEST_P(CsvErrors, AreNamedWithTheirLine) {
  const auto rows = rows_of(GetParam().text);
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(rows.error().message.find(GetParam().words), std::string::npos) << rows.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    All, CsvErrors,
    testing::Values(Bad{"", "empty"}, Bad{"a,b\n1\n", "line 2: 1 cells"},
                    Bad{"a,b\n1,2,3\n", "line 2: more than 2 cells"}, Bad{"a,a\n", "two columns"},
                    Bad{"a,\n", "column 2 has no name"}, Bad{"a\n\"x\"y\n", "line 2: a quote"},
                    Bad{"a\nx\"y\n", "line 2: a quote"}, Bad{"a\n\"\"\"\n1\n", "line 2: a quote"},
                    Bad{"a\n\"x\n1\n", "never closed"}, Bad{"a\n\xff\n", "line 2: not UTF-8"}));

}  // namespace
}  // namespace tailrace::dataset
