#include "tailrace/dataset/line_reader.h"

#include <gtest/gtest.h>

#include "dataset/support/packed.h"
#include "support/temp_folder.h"

namespace tailrace::dataset {
namespace {

using test::Packing;

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * 7919 % 3001) + "\n";
  return text;
}

Result<std::vector<std::string>> read_all(LineReader reader) {
  std::vector<std::string> lines;
  for (;;) {
    const auto line = reader.next();
    if (!line) return fail(line.error());
    if (!*line) return lines;
    lines.emplace_back(**line);
  }
}

Result<std::vector<std::string>> read_all(std::string bytes) {
  return read_all(*LineReader::from_bytes(std::move(bytes), "test"));
}

TEST(LineReader, LinesEndWithLfOrCrLfOrTheFile) {
  const auto lines = read_all("a\r\nb\n\nc");
  ASSERT_TRUE(lines.has_value());
  EXPECT_EQ(*lines, (std::vector<std::string>{"a", "b", "", "c"}));
}

TEST(LineReader, NothingHoldsNoLine) {
  EXPECT_TRUE(read_all("")->empty());
}

TEST(LineReader, AByteOrderMarkIsNoPartOfTheFirstLine) {
  EXPECT_EQ(*read_all("\xef\xbb\xbfid\nx\n"), (std::vector<std::string>{"id", "x"}));
}

TEST(LineReader, EveryPackingGivesTheSameLines) {
  const std::string text = many_lines();
  const auto plain = read_all(text);
  ASSERT_TRUE(plain.has_value());
  ASSERT_EQ(plain->size(), 3000u);
  for (const Packing packing : test::kPackings) {
    const std::string packed = test::pack(packing, text);
    EXPECT_LT(packed.size(), text.size());
    const auto lines = read_all(packed);
    ASSERT_TRUE(lines.has_value()) << lines.error().message;
    EXPECT_EQ(*lines, *plain);
  }
}

TEST(LineReader, PackedPartsOneAfterTheOtherAreReadThrough) {
  for (const Packing packing : test::kPackings) {
    const auto lines = read_all(test::pack(packing, "a\nb\n") + test::pack(packing, "c\n"));
    ASSERT_TRUE(lines.has_value()) << lines.error().message;
    EXPECT_EQ(*lines, (std::vector<std::string>{"a", "b", "c"}));
  }
}

TEST(LineReader, PackedInputCutAnywhereIsAnErrorAndNeverAShorterFile) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i * 7919 % 61) + "\n";
  for (const Packing packing : test::kPackings) {
    const std::string packed = test::pack(packing, text);
    // Below the signature's size nothing tells packed bytes from text.
    for (std::size_t size = 10; size < packed.size(); ++size) {
      const auto lines = read_all(packed.substr(0, size));
      ASSERT_FALSE(lines.has_value()) << "packing " << static_cast<int>(packing) << " cut at "
                                      << size << " of " << packed.size();
      EXPECT_EQ(lines.error().code, ErrorCode::kDataLoss);
    }
  }
}

TEST(LineReader, ADamagedByteNeverChangesALineInSilence) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i * 7919 % 61) + "\n";
  const auto whole = read_all(text);
  // Not zstd, whose frames hold a checksum only where the packer was asked for one.
  for (const Packing packing : {Packing::kGzip, Packing::kXz, Packing::kBzip2}) {
    std::string packed = test::pack(packing, text);
    for (std::size_t at = 10; at < packed.size(); ++at) {
      packed[at] = static_cast<char>(packed[at] ^ 0x10);
      const auto lines = read_all(packed);
      if (lines) {
        EXPECT_EQ(*lines, *whole) << "byte " << at;
      }
      packed[at] = static_cast<char>(packed[at] ^ 0x10);
    }
  }
}

TEST(LineReader, ADamageSaysWhichFileAndHowFarItGot) {
  std::string packed = test::pack(Packing::kGzip, many_lines());
  packed.resize(packed.size() - 4);
  auto reader = LineReader::from_bytes(packed, "runs.gz");
  std::uint64_t good = 0;
  for (;;) {
    const auto line = reader->next();
    if (!line) {
      EXPECT_NE(line.error().message.find("runs.gz"), std::string::npos);
      EXPECT_NE(line.error().message.find("after line " + std::to_string(good)), std::string::npos)
          << line.error().message;
      break;
    }
    ASSERT_TRUE(line->has_value());
    ++good;
  }
  EXPECT_FALSE(reader->next().has_value()) << "an error stays one";
}

TEST(LineReader, ALineOverTheLimitIsRefusedBeforeItIsHeld) {
  auto reader = LineReader::from_bytes("short\n" + std::string(100, 'x') + "\n", "test", 64);
  ASSERT_TRUE(reader->next()->has_value());
  const auto line = reader->next();
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(line.error().message.find("line 2 is longer than 64 bytes"), std::string::npos);
}

TEST(LineReader, ATinyFileThatUnpacksToAnEndlessLineIsRefused) {
  const std::string packed = test::pack(Packing::kZstd, std::string(std::size_t{8} << 20, 'a'));
  ASSERT_LT(packed.size(), 4096u);
  auto reader = LineReader::from_bytes(packed, "test", std::size_t{1} << 20);
  const auto line = reader->next();
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kResourceExhausted);
}

TEST(LineReader, AMissingFileAndAFolderAreErrorsWithTheirName) {
  const auto missing = LineReader::open("/no/such/file");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("/no/such/file"), std::string::npos);
  const auto folder = LineReader::open("/");
  ASSERT_FALSE(folder.has_value());
  EXPECT_NE(folder.error().message.find("/: "), std::string::npos);
}

TEST(LineReader, AFileIsToldByItsBytesAndNotByItsName) {
  const TempFile file(test::pack(Packing::kXz, "a\nb\n"));
  auto reader = LineReader::open(file.path());
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(*read_all(std::move(*reader)), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace tailrace::dataset
