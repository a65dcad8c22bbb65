#include "gateway/response_reader.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "gateway/request_reader.h"
#include "gateway/usage_filter.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

namespace fs = std::filesystem;

fs::path fixtures() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path root =
      shared != nullptr ? fs::path(shared) : fs::path(TAILRACE_SOURCE_DIR).parent_path() / "shared";
  return root / "data/wire_fixtures";
}

TEST(ResponseReader, ReadsUsageAndFinish) {
  const auto facts = read_answer(
      Route::kChat, R"({"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"length"}],
    "usage":{"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2}}})");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->prompt.count(), 3);
  EXPECT_EQ(facts.usage->completion.count(), 5);
  EXPECT_EQ(facts.usage->cached.count(), 2);
  EXPECT_TRUE(facts.length_limited);
  EXPECT_TRUE(facts.done);
  EXPECT_TRUE(learnable_length(facts, 1, true)->censored);
}

TEST(ResponseReader, ReadsAResponsesObject) {
  const auto facts = read_answer(
      Route::kResponses,
      R"({"status":"completed","error":null,"usage":{"input_tokens":3,"output_tokens":5}})");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->completion.count(), 5);
  EXPECT_FALSE(facts.failed);
  EXPECT_FALSE(learnable_length(facts, 1, true)->censored);
}

TEST(ResponseReader, ErrorsAreFailures) {
  for (const std::string_view body : {R"({"error":{"message":"boom"}})", R"({"error":"boom"})",
                                      R"({"object":"error","message":"boom","code":400})"}) {
    const auto facts = read_answer(Route::kChat, body);
    EXPECT_TRUE(facts.failed) << body;
    EXPECT_EQ(facts.error, "boom") << body;
  }
}

TEST(ResponseReader, WhatItCannotReadSaysNothing) {
  for (const std::string_view body : {"", "not json", "[1]", "{\"usage\":7}",
                                      "{\"choices\":7,\"usage\":{\"completion_tokens\":\"x\"}}"}) {
    const auto facts = read_answer(Route::kChat, body);
    EXPECT_FALSE(facts.usage) << body;
    EXPECT_FALSE(facts.failed) << body;
  }
  EXPECT_FALSE(read_answer(Route::kChat, std::string(kAnswerBytesMax + 1, ' ')).done);
}

TEST(ResponseReader, AbsurdCountsAreClipped) {
  const auto facts =
      read_answer(Route::kChat, R"({"usage":{"prompt_tokens":-5,"completion_tokens":1e300}})");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->prompt.count(), 0);
  EXPECT_GT(facts.usage->completion.count(), 1'000'000);
}

TEST(ResponseReader, ListsModelNames) {
  EXPECT_EQ(read_model_names(R"({"data":[{"id":"a"},{"id":7},{"no":"id"},{"id":"b"},{"id":""}]})"),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read_model_names("oops").empty());
}

TEST(ResponseReader, RecordedBodies) {
  const fs::path folder = fixtures() / "bodies";
  if (!fs::exists(folder)) GTEST_SKIP() << "no recorded bodies at " << folder;
  auto body = core::read_file((folder / "vllm_chat_completion_qwen3-30b.json").string(), 1 << 20);
  ASSERT_TRUE(body);
  const auto facts = read_answer(Route::kChat, *body);
  ASSERT_TRUE(facts.usage);
  EXPECT_GT(facts.usage->completion.count(), 0);
  auto llama =
      core::read_file((folder / "llamacpp_chat_completion_timings.json").string(), 1 << 20);
  ASSERT_TRUE(llama);
  EXPECT_TRUE(read_answer(Route::kChat, *llama).usage);
  auto models = core::read_file((folder / "vllm_models_with_lora.json").string(), 1 << 20);
  ASSERT_TRUE(models);
  EXPECT_FALSE(read_model_names(*models).empty());
}

/// One recorded exchange with an OpenAI API.
struct Exchange {
  std::string file;
  std::string url;
  std::string request;
  std::string response;
  int status = 0;
};

std::vector<Exchange> cassettes(const fs::path& folder) {
  std::vector<Exchange> exchanges;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto document = YAML::LoadFile(entry.path().string());
    for (const auto& one : document["interactions"]) {
      exchanges.push_back(
          {entry.path().filename().string(), one["request"]["url"].as<std::string>(),
           one["request"]["body"].as<std::string>(), one["response"]["body"].as<std::string>(),
           one["response"]["code"].as<int>()});
    }
  }
  return exchanges;
}

std::optional<Route> route_of_url(const std::string& url) {
  if (url.find("/chat/completions") != std::string::npos) return Route::kChat;
  if (url.find("/completions") != std::string::npos) return Route::kCompletions;
  return std::nullopt;
}

TEST(RecordedExchanges, RequestsAreReadAndAnswersPassUnchanged) {
  const fs::path folder = fixtures() / "openai_cassettes";
  if (!fs::exists(folder)) GTEST_SKIP() << "no recorded exchanges at " << folder;
  int streams = 0;
  int usages = 0;
  for (const auto& exchange : cassettes(folder)) {
    const auto route = route_of_url(exchange.url);
    if (!route) continue;
    const auto request = read_request(*route, exchange.request);
    if (!request) {
      EXPECT_GE(exchange.status, 400) << exchange.file << ": " << request.error().message;
      continue;
    }
    if (request->stream && !request->usage_asked) {
      const auto edited = boost::json::parse(with_usage_request(exchange.request));
      EXPECT_TRUE(edited.at("stream_options").at("include_usage").as_bool()) << exchange.file;
    }
    if (!exchange.response.starts_with("data:")) {
      const auto facts = read_answer(*route, exchange.response);
      EXPECT_EQ(facts.failed, exchange.status >= 400) << exchange.file;
      if (exchange.status == 200) {
        ASSERT_TRUE(facts.usage) << exchange.file;
        ++usages;
      }
      continue;
    }
    ++streams;
    for (const bool drop : {false, true}) {
      for (std::size_t step : {1u, 7u, 64u, 1000u}) {
        UsageFilter filter(*route, drop && !request->usage_asked);
        std::string out;
        for (std::size_t at = 0; at < exchange.response.size(); at += step) {
          filter.feed(std::string_view(exchange.response).substr(at, step), out);
        }
        filter.finish(out);
        EXPECT_EQ(out, exchange.response) << exchange.file << ": nothing was caused by us";
        EXPECT_TRUE(filter.facts().done) << exchange.file;
        EXPECT_EQ(filter.facts().usage.has_value(), request->usage_asked) << exchange.file;
      }
    }
    // Had we asked for usage, its event would be missing and nothing else.
    if (request->usage_asked) {
      UsageFilter filter(*route, true);
      std::string out;
      filter.feed(exchange.response, out);
      filter.finish(out);
      EXPECT_EQ(filter.dropped_events(), 1u) << exchange.file;
      const auto end = exchange.response.rfind("data: [DONE]");
      const auto begin = exchange.response.rfind("data: ", end - 1);
      EXPECT_EQ(out, exchange.response.substr(0, begin) + exchange.response.substr(end))
          << exchange.file;
    }
  }
  EXPECT_GE(streams, 4);
  EXPECT_GE(usages, 5);
}

}  // namespace
}  // namespace tailrace::gateway
