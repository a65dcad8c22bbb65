#include "loadgen/answer_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace tailrace::loadgen {
namespace {

std::string chunk(std::string_view delta, std::string_view reason = "null") {
  return "data: {\"choices\":[{\"index\":0,\"delta\":" + std::string(delta) +
         ",\"finish_reason\":" + std::string(reason) + "}]}\n\n";
}

TEST(AnswerReader, CountsTokensAndGapsFromTheFirstTextOn) {
  std::vector<double> gaps;
  AnswerReader reader(true, [&](double gap) { gaps.push_back(gap); });
  reader.feed(chunk(R"({"role":"assistant","content":""})"), 1.0);
  reader.feed(chunk(R"({"content":"a"})"), 2.0);
  reader.feed(chunk(R"({"content":"b"})"), 2.5);
  reader.feed(chunk(R"({"content":""})", "\"stop\"") + "data: [DONE]\n\n", 3.5);
  EXPECT_EQ(reader.finish(), "");
  EXPECT_EQ(reader.tokens(), 3);
  EXPECT_FALSE(reader.from_usage());
  EXPECT_EQ(reader.first_token_s(), 2.0);
  EXPECT_EQ(reader.last_token_s(), 3.5);
  EXPECT_EQ(gaps, (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(reader.finish_reason(), "stop");
}

TEST(AnswerReader, UsageDecidesWherePresent) {
  AnswerReader reader(true, [](double) {});
  reader.feed(chunk(R"({"content":"three tokens here"})", "\"length\""), 1);
  reader.feed("data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n", 1);
  EXPECT_EQ(reader.finish(), "");
  EXPECT_EQ(reader.tokens(), 3);
  EXPECT_TRUE(reader.from_usage());
}

TEST(AnswerReader, ReasoningAndToolCallsAreTokensToo) {
  AnswerReader reader(true, [](double) {});
  reader.feed(chunk(R"({"reasoning_content":"hm"})"), 1);
  reader.feed(chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{"}}]})"), 2);
  reader.feed(chunk(R"({"content":"x","tool_calls":[]})"), 3);
  EXPECT_EQ(reader.tokens(), 3);
}

TEST(AnswerReader, TellsAWholeStreamFromACutOrFailedOne) {
  AnswerReader cut(true, [](double) {});
  cut.feed(chunk(R"({"content":"a"})"), 1);
  EXPECT_EQ(cut.finish(), "stream_cut");
  AnswerReader failed(true, [](double) {});
  failed.feed(
      chunk(R"({"content":"a"})") + "data: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n", 1);
  EXPECT_EQ(failed.finish(), "stream_error");
  AnswerReader garbage(true, [](double) {});
  garbage.feed("data: {oops\n\ndata: [DONE]\n\n", 1);
  EXPECT_EQ(garbage.finish(), "bad_body");
}

TEST(AnswerReader, ReadsADocumentInPieces) {
  AnswerReader reader(false, [](double) {});
  reader.feed(R"({"choices":[{"message":{"content":"x"},"finish_)", 1);
  reader.feed(R"(reason":"stop"}],"usage":{"completion_tokens":17}})", 2);
  EXPECT_EQ(reader.finish(), "");
  EXPECT_EQ(reader.tokens(), 17);
  EXPECT_FALSE(reader.first_token_s()) << "a whole answer has no time to first token";
  AnswerReader cut(false, [](double) {});
  cut.feed(R"({"choices":[)", 1);
  EXPECT_EQ(cut.finish(), "bad_body");
}

}  // namespace
}  // namespace tailrace::loadgen
