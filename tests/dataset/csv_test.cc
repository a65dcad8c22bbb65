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
                    Bad{"a,b\n1,2,3\n", "line 2: 3 cells"}, Bad{"a,a\n", "two columns"},
                    Bad{"a,\n", "column 2 has no name"}, Bad{"a\n\"x\"y\n", "line 2: a quote"},
                    Bad{"a\nx\"y\n", "line 2: a quote"}, Bad{"a\n\"\"\"\n1\n", "line 2: a quote"},
                    Bad{"a\n\"x\n1\n", "never closed"}, Bad{"a\n\xff\n", "line 2: not UTF-8"}));

}  // namespace
}  // namespace tailrace::dataset
