#include "tailrace/core/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace tailrace::core {
namespace {

TEST(Text, ParsesWholeNumbersOnly) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-7"), -7);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "0x1", "9223372036854775808"}) {
    EXPECT_FALSE(parse_int(bad)) << bad;
  }
  EXPECT_DOUBLE_EQ(parse_double("1e3").value(), 1000.0);
  EXPECT_FALSE(parse_double("1e3x"));
}

TEST(Text, QuotesSoThatALogLineStaysOneLine) {
  EXPECT_EQ(quoted("a\"b\n"), "\"a\\\"b\\x0a\"");
  EXPECT_EQ(quoted("abcdef", 3), "\"abc…\"");
}

TEST(Text, ReplacesAFileAsAWhole) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "tailrace_text_test";
  std::filesystem::create_directories(folder);
  const std::string path = folder / "file";
  ASSERT_TRUE(write_file_atomically(path, "one"));
  ASSERT_TRUE(write_file_atomically(path, "two"));
  EXPECT_EQ(read_file(path, 10).value(), "two");
  EXPECT_EQ(read_file(path, 2).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1)
      << "a temporary file was left behind";
  EXPECT_EQ(read_file(folder / "absent", 10).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(write_file_atomically("/nonexistent/folder/file", "x"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tailrace::core
