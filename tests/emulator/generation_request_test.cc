#include "emulator/generation_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tailrace::emulator {
namespace {

constexpr std::string_view kMessages = R"("messages":[{"role":"user","content":"Hello there"}])";

Result<GenerationRequest> chat(std::string_view more) {
  return parse_generation_request("{" + std::string(kMessages) + std::string(more) + "}", true);
}

TEST(GenerationRequest, ReadsWhatAnEngineNeedsAndIgnoresTheRest) {
  const auto request =
      chat(R"(,"model":"m","stream":true,"stream_options":{"include_usage":true},"n":2,)"
           R"("max_tokens":7,"emulator_output_tokens":5,"temperature":0,"tools":[{"a":1}])");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->model, "m");
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->include_usage);
  EXPECT_EQ(request->n, 2);
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_EQ(request->output_tokens, 5);
  EXPECT_GT(request->prompt_tokens, 1);
}

TEST(GenerationRequest, NullIsAbsentAndTheNewerNameOfTheLimitWins) {
  const auto absent = chat(R"(,"max_tokens":null,"n":null,"stream":null,"stream_options":null)");
  ASSERT_TRUE(absent) << absent.error().message;
  EXPECT_FALSE(absent->max_tokens);
  EXPECT_EQ(absent->n, 1);
  EXPECT_EQ(chat(R"(,"max_tokens":7,"max_completion_tokens":9)")->max_tokens, 9);
}

TEST(GenerationRequest, OfDuplicateKeysTheLastCounts) {
  EXPECT_EQ(chat(R"(,"max_tokens":7,"max_tokens":8)")->max_tokens, 8);
  EXPECT_FALSE(chat(R"(,"max_tokens":7,"max_tokens":null)")->max_tokens);
}

TEST(GenerationRequest, RefusesWithTheNameOfTheField) {
  for (const auto& [more, field] : {std::pair{R"(,"max_tokens":0)", "max_tokens"},
                                    {R"(,"max_tokens":1.5)", "max_tokens"},
                                    {R"(,"max_tokens":9223372036854775808)", "max_tokens"},
                                    {R"(,"n":129)", "n is"},
                                    {R"(,"stream":"yes")", "stream"},
                                    {R"(,"emulator_fault":"explode")", "explode"},
                                    {R"(,"model":7)", "model"}}) {
    const auto request = chat(more);
    ASSERT_FALSE(request) << more;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(request.error().message.find(field), std::string::npos) << request.error().message;
  }
  for (const char* body : {"", "{", "[]", "{}", R"({"messages":[]})", R"({"messages":"x"})",
                           R"({"messages":[{"content":"no role"}]})"}) {
    EXPECT_FALSE(parse_generation_request(body, true)) << body;
  }
  EXPECT_FALSE(parse_generation_request(R"({"prompt":["two","prompts"]})", false));
}

TEST(GenerationRequest, ContentMayBeTextNullOrParts) {
  const auto parts = parse_generation_request(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"12345678"}]},)"
      R"({"role":"assistant","content":null}]})",
      true);
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_GE(parts->prompt_tokens, 2 + 2 * 4);
  const auto ids = parse_generation_request(R"({"prompt":[1,2,3]})", false);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->prompt_tokens, 3) << "an id is a token";
}

TEST(AnswerTokens, TheSamePromptAlwaysGetsTheSameLength) {
  const LengthDraw draw;
  const auto first = chat("");
  const auto again = chat(R"(,"stream":true)");
  EXPECT_EQ(answer_tokens(*first, draw, 0, 2048), answer_tokens(*again, draw, 0, 2048));
  std::set<std::int64_t> lengths;
  for (std::int64_t choice = 0; choice < 20; ++choice) {
    lengths.insert(answer_tokens(*first, draw, choice, 2048));
  }
  EXPECT_GT(lengths.size(), 10u) << "choices of one prompt are samples, not copies";
}

TEST(AnswerTokens, FollowsTheLawOverPromptsAndTheCap) {
  const LengthDraw draw;
  std::vector<double> logs;
  for (int i = 0; i < 2000; ++i) {
    GenerationRequest request;
    request.prompt_hash = static_cast<std::uint64_t>(i) * 7919;
    const std::int64_t tokens = answer_tokens(request, draw, 0, 2048);
    ASSERT_GE(tokens, 1);
    ASSERT_LE(tokens, 2048);
    logs.push_back(std::log(static_cast<double>(tokens)));
  }
  std::nth_element(logs.begin(), logs.begin() + 1000, logs.end());
  EXPECT_NEAR(logs[1000], draw.mu, 0.1);
}

TEST(Faults, AreNamed) {
  EXPECT_EQ(parse_fault("never_answer")->kind, Fault::kNeverAnswer);
  EXPECT_EQ(parse_fault("status_503")->status, 503);
  EXPECT_FALSE(parse_fault("status_200"));
  EXPECT_FALSE(parse_fault(""));
}

}  // namespace
}  // namespace tailrace::emulator
