#include "tailrace/predict/prompt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tailrace::predict {
namespace {

RequestFeatures with_text(const std::vector<std::string>& texts) {
  std::vector<std::string_view> views(texts.begin(), texts.end());
  RequestFeatures features;
  set_prompt_text(views, features);
  return features;
}

TEST(Prompt, ShortTextsAreKeptWhole) {
  const auto features = with_text({"Tell me ", "a story"});
  EXPECT_EQ(features.prompt_head, "Tell me a story");
  EXPECT_EQ(features.prompt_tail, "Tell me a story");
}

TEST(Prompt, LongTextsKeepBothEndsCutBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 400; ++i) text += "\u00e9\u6f22";
  const auto features = with_text({text});
  EXPECT_LE(features.prompt_head.size(), kPromptEndBytes);
  EXPECT_LE(features.prompt_tail.size(), kPromptEndBytes);
  EXPECT_GT(features.prompt_tail.size(), kPromptEndBytes - 4);
  EXPECT_NE(static_cast<unsigned char>(features.prompt_tail[0]) & 0xC0, 0x80);
}

TEST(Prompt, FingerprintsTellTextsApart) {
  const auto of = [](const std::string& text) { return with_text({text}).prompt_fingerprint; };
  EXPECT_EQ(of("write a poem"), of("write a poem"));
  EXPECT_NE(of("write a poem"), of("write a poen"));
  EXPECT_NE(of(""), 0U);
  EXPECT_EQ(with_text({}).prompt_fingerprint, 0U);
  EXPECT_NE(with_text({"ab", "c"}).prompt_fingerprint, with_text({"a", "bc"}).prompt_fingerprint);
  // Long ones by their ends and size.
  std::string text(100'000, 'a');
  const auto before = of(text);
  text.front() = 'b';
  EXPECT_NE(of(text), before);
  text.front() = 'a';
  text.back() = 'b';
  EXPECT_NE(of(text), before);
  EXPECT_NE(of(std::string(100'001, 'a')), before);
}

TEST(Prompt, EarlierAnswersTellTheirLastAndTypicalLength) {
  EarlierAnswers answers;
  RequestFeatures features;
  answers.set(features);
  EXPECT_EQ(features.earlier_answers, 0);
  EXPECT_EQ(features.last_answer, Tokens(0));
  answers.add(Tokens(100));
  answers.add(Tokens(0));
  answers.add(Tokens(400));
  answers.set(features);
  EXPECT_EQ(features.earlier_answers, 3);
  EXPECT_EQ(features.last_answer, Tokens(400));
  EXPECT_NEAR(features.mean_log_answer, (std::log(100.0) + std::log(400.0)) / 3, 1e-12);
}

}  // namespace
}  // namespace tailrace::predict
