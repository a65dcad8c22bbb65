#include "tailrace/core/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "support/temp_folder.h"
#include "tailrace/core/write_target.h"

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

TEST(Text, WritesIntoWhatIsNoFileAndThroughLinks) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  // A link to a device stands for the device: were it replaced, /dev/stdout could be too.
  std::filesystem::create_symlink("/dev/null", folder / "device");
  EXPECT_TRUE(write_file_atomically(folder / "device", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file(folder / "device"));
  ASSERT_TRUE(write_file_atomically(folder / "real", "one"));
  std::filesystem::create_symlink("real", folder / "link");
  EXPECT_TRUE(write_file_atomically(folder / "link", "two"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real", 10).value(), "two");
}

TEST(Text, WritesThroughALinkWhoseTargetIsStillMissing) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  std::filesystem::create_directories(folder / "there");
  std::filesystem::create_symlink("there/file", folder / "link");
  EXPECT_TRUE(write_file_atomically(folder / "link", "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "there" / "file", 10).value(), "new");
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_FALSE(write_file_atomically(folder / "circle", "x"));
}

TEST(Text, GoesOnWhereOneOfOurDescriptorsStands) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  std::FILE* const ours = std::fopen((folder / "ours").c_str(), "w");
  ASSERT_NE(ours, nullptr);
  std::fputs("before, ", ours);
  std::fflush(ours);
  // As /dev/stdout does, through a link of our own.
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(fileno(ours)), folder / "link");
  EXPECT_TRUE(write_file_atomically(folder / "link", "between, "));
  std::fputs("after", ours);
  std::fclose(ours);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "ours", 100).value(), "before, between, after");
}

TEST(Text, ARegularFileIsReadAndAPipeIsRefusedInsteadOfWaitedFor) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  ASSERT_TRUE(write_file_atomically(folder / "file", "here"));
  EXPECT_EQ(read_regular_file(folder / "file", 10).value(), "here");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto refused = read_regular_file(folder / "pipe", 10);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(read_regular_file(folder, 10));
}

TEST(Text, KnowsOneFileUnderTwoNames) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  std::filesystem::create_directories(folder / "below");
  const std::string here = folder / "file";
  EXPECT_TRUE(same_file(here, folder / "below" / ".." / "file")) << "before it exists";
  ASSERT_TRUE(write_file_atomically(here, "x"));
  std::filesystem::create_symlink("file", folder / "link");
  std::filesystem::create_hard_link(here, folder / "other");
  for (const char* name : {"link", "other", "./file"}) EXPECT_TRUE(same_file(here, folder / name));
  EXPECT_FALSE(same_file(here, folder / "third"));
  EXPECT_TRUE(same_file("no-such-file", "./no-such-file"));
  EXPECT_FALSE(same_file("/dev/null", "/dev/null")) << "nothing to lose";
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("aé", 2), "a");
  EXPECT_EQ(utf8_prefix("aé", 3), "aé");
  EXPECT_EQ(utf8_prefix("\x80\x80\x80", 2), "") << "no beginning of a character anywhere";
  EXPECT_EQ(quoted("aéé", 2), "\"a…\"");
}

TEST(Text, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(valid_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "aé€😀");
  EXPECT_EQ(valid_utf8("\xff|\xc3|\x80"), "?|?|?");
  EXPECT_EQ(valid_utf8("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(valid_utf8("\xe2\x82"), "??") << "cut short";
}

TEST(Text, ReplacesAFileAsAWhole) {
  const TempFolder temporary;
  const auto& folder = temporary.path();
  const std::string path = folder / "file";
  ASSERT_TRUE(write_file_atomically(path, "one"));
  ASSERT_TRUE(write_file_atomically(path, "two"));
  EXPECT_EQ(read_file(path, 10).value(), "two");
  EXPECT_EQ(read_file(path, 2).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1)
      << "a temporary file was left behind";
  EXPECT_EQ(read_file(folder / "absent", 10).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(write_file_atomically("/nonexistent/folder/file", "x"));
  EXPECT_FALSE(write_file_atomically(folder, "x")) << "a folder is no file";
  EXPECT_EQ(read_file(folder, 10).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tailrace::core
