#include "emulator/prompt_blocks.h"

#include <gtest/gtest.h>

#include <string>

namespace tailrace::emulator {
namespace {

/// Blocks of two tokens, eight bytes.
std::vector<std::uint64_t> ids(std::string_view text, std::int64_t tokens) {
  PromptBlocks blocks(2);
  blocks.add(text);
  return blocks.ids(tokens);
}

TEST(PromptBlocks, AreAlikeAsFarAsTheTextsAre) {
  const auto a = ids("the same text, then one end", 6);
  const auto b = ids("the same text, then another", 6);
  ASSERT_EQ(a.size(), 3u);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_NE(a[2], b[2]);
  EXPECT_NE(ids("xhe same text, then one end", 6)[2], a[2]) << "an id stands for all before it";
}

TEST(PromptBlocks, DoNotDependOnThePiecesThatATextComesIn) {
  PromptBlocks pieces(2);
  for (const char c : std::string("the same text, then")) pieces.add({&c, 1});
  EXPECT_EQ(pieces.ids(4), ids("the same text, then", 4));
}

TEST(PromptBlocks, CoverWholeBlocksOfThePromptOnly) {
  EXPECT_EQ(ids("the same text, then", 5).size(), 2u);
  EXPECT_TRUE(ids("the same", 1).empty());
  EXPECT_TRUE(PromptBlocks(0).ids(100).empty());
}

TEST(PromptBlocks, FollowFromTheWholeTextWhereThePromptIsSaidToBeLonger) {
  const auto a = ids("short", 8);
  ASSERT_EQ(a.size(), 4u);
  EXPECT_EQ(a, ids("short", 9));
  const auto b = ids("shorn", 8);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]);
}

TEST(PromptBlocks, TellNumbersFromEachOther) {
  PromptBlocks a(2), b(2);
  for (const std::int64_t id : {1, 2, 3, 4}) a.add_token(id);
  for (const std::int64_t id : {1, 2, 3, 5}) b.add_token(id);
  EXPECT_EQ(a.ids(4)[0], b.ids(4)[0]);
  EXPECT_NE(a.ids(4)[1], b.ids(4)[1]);
}

TEST(PromptBlocks, StaySmallHoweverLongThePromptIs) {
  EXPECT_EQ(ids("x", std::int64_t{1} << 40).size(), 65'536u);
}

}  // namespace
}  // namespace tailrace::emulator
