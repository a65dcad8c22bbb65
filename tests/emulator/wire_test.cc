#include "emulator/wire.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include "tailrace/core/text.h"

namespace tailrace::emulator {
namespace {

AnswerWriter writer(bool chat) {
  GenerationRequest request;
  request.chat = chat;
  request.model = "a \"model\"";
  request.prompt_tokens = 3;
  request.prompt_hash = 42;
  return AnswerWriter(request, "id\n1", 1700000000);
}

std::vector<simdjson::dom::element> events(const std::string& text, std::vector<std::string>& keep,
                                           std::vector<simdjson::dom::parser>& parsers) {
  std::vector<simdjson::dom::element> out;
  for (const auto line : core::split(text, '\n')) {
    if (!line.starts_with("data: {")) continue;
    keep.emplace_back(line.substr(6));
    parsers.emplace_back();
    out.push_back(parsers.back().parse(keep.back()).value());
  }
  return out;
}

TEST(AnswerWriter, StreamsOneEventPerTokenAndSaysWhyItEnds) {
  for (const bool cut : {false, true}) {
    const Choice choice{4, cut};
    std::string text;
    writer(true).append_opening(text, 0);
    writer(true).append_tokens(text, 0, choice, 0, 2);
    writer(true).append_tokens(text, 0, choice, 2, 4);
    std::vector<std::string> keep;
    std::vector<simdjson::dom::parser> parsers;
    keep.reserve(8);
    parsers.reserve(8);
    const auto all = events(text, keep, parsers);
    ASSERT_EQ(all.size(), 5u) << text;
    EXPECT_EQ(std::string_view(all[0].at_pointer("/choices/0/delta/role")), "assistant");
    EXPECT_EQ(std::string_view(all[0]["model"]), "a \"model\"");
    EXPECT_TRUE(all[3].at_pointer("/choices/0/finish_reason").is_null());
    EXPECT_EQ(std::string_view(all[4].at_pointer("/choices/0/finish_reason")),
              cut ? "length" : "stop");
  }
}

TEST(AnswerWriter, AWholeAnswerSaysWhatAStreamedOneSays) {
  const std::vector<Choice> choices{{5, false}, {3, true}};
  simdjson::dom::parser parser;
  const std::string body = writer(false).whole(choices);
  const auto whole = parser.parse(body).value();
  EXPECT_EQ(std::int64_t(whole.at_pointer("/usage/completion_tokens")), 8);
  EXPECT_EQ(std::int64_t(whole.at_pointer("/usage/total_tokens")), 11);
  for (std::int64_t index = 0; index < 2; ++index) {
    std::string stream;
    writer(false).append_tokens(stream, index, choices[static_cast<std::size_t>(index)], 0,
                                choices[static_cast<std::size_t>(index)].tokens);
    std::vector<std::string> keep;
    std::vector<simdjson::dom::parser> parsers;
    keep.reserve(8);
    parsers.reserve(8);
    std::string spoken;
    for (const auto& event : events(stream, keep, parsers)) {
      spoken += std::string_view(event.at_pointer("/choices/0/text"));
    }
    EXPECT_EQ(spoken,
              std::string_view(whole.at_pointer("/choices/" + std::to_string(index) + "/text")));
  }
}

TEST(AnswerWriter, TheUsageEventHasNoChoices) {
  std::string text;
  writer(true).append_usage(text, 9);
  simdjson::dom::parser parser;
  const auto event = parser.parse(text.substr(6)).value();
  EXPECT_EQ(event["choices"].get_array().size(), 0u);
  EXPECT_EQ(std::int64_t(event.at_pointer("/usage/completion_tokens")), 9);
}

TEST(ErrorBody, IsShapedAsOpenAiDoes) {
  simdjson::dom::parser parser;
  const std::string body = error_body(400, "BadRequestError", "say \"n\"");
  const auto error = parser.parse(body).value();
  EXPECT_EQ(std::string_view(error.at_pointer("/error/message")), "say \"n\"");
  EXPECT_EQ(std::int64_t(error.at_pointer("/error/code")), 400);
}

}  // namespace
}  // namespace tailrace::emulator
