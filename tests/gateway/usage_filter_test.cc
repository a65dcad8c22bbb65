#include "gateway/usage_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  auto bytes = core::read_file(path.string(), 1 << 20);
  EXPECT_TRUE(bytes) << path;
  return bytes.value_or("");
}

std::string stream(std::string_view name) {
  return read(fs::path(TAILRACE_SOURCE_DIR) / "tests/gateway/streams" / name);
}

Route route_of_file(const std::string& name) {
  if (name.starts_with("completion")) return Route::kCompletions;
  if (name.starts_with("responses")) return Route::kResponses;
  return Route::kChat;
}

struct Sample {
  std::string name;
  Route route;
  std::string bytes;
};

std::vector<Sample> samples_in(const fs::path& folder) {
  std::vector<Sample> samples;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".sse") continue;
    const std::string name = entry.path().filename().string();
    samples.push_back({name, route_of_file(name), read(entry.path())});
  }
  std::sort(samples.begin(), samples.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return samples;
}

std::vector<Sample> own_samples() {
  return samples_in(fs::path(TAILRACE_SOURCE_DIR) / "tests/gateway/streams");
}

fs::path shared_fixtures() {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const fs::path root =
      shared != nullptr ? fs::path(shared) : fs::path(TAILRACE_SOURCE_DIR).parent_path() / "shared";
  return root / "data/wire_fixtures";
}

/// Reads end after each of `cuts` (ascending offsets).
std::string run(UsageFilter& filter, std::string_view bytes, const std::vector<std::size_t>& cuts) {
  std::string out;
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    filter.feed(bytes.substr(at, cut - at), out);
    at = cut;
  }
  filter.feed(bytes.substr(at), out);
  filter.finish(out);
  return out;
}

std::string run_in_steps(UsageFilter& filter, std::string_view bytes, std::size_t step) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = step; at < bytes.size(); at += step) cuts.push_back(at);
  return run(filter, bytes, cuts);
}

/// The usage event found by plain text search: the data line, the field lines of the same event
/// before it, and the blank line behind it if the event is alone in front of it.
std::string without_usage_event(const std::string& bytes) {
  std::size_t line = bytes.find("\"choices\":[],");
  if (line == std::string::npos) line = bytes.find("\"choices\": [],");
  if (line == std::string::npos) line = bytes.find("\"choices\":[]}");
  while (line != std::string::npos) {
    const std::size_t begin = bytes.rfind("data:", line);
    std::size_t end = std::min(bytes.find_first_of("\r\n", line), bytes.size());
    const std::string data = bytes.substr(begin, end - begin);
    if (data.find("\"usage\":{") == std::string::npos &&
        data.find("\"usage\": {") == std::string::npos) {
      line = bytes.find("\"choices\":[]", line + 1);
      continue;
    }
    std::size_t first = begin;
    const std::size_t fields = bytes.rfind("event: message", begin);
    if (fields != std::string::npos &&
        bytes.substr(fields, begin - fields).find("\n\r\n") == std::string::npos &&
        bytes.substr(fields, begin - fields).find("data:") == std::string::npos) {
      first = fields;
    }
    const auto skip_line_end = [&] {
      if (bytes.compare(end, 2, "\r\n") == 0) {
        end += 2;
      } else if (end < bytes.size() && (bytes[end] == '\n' || bytes[end] == '\r')) {
        ++end;
      }
    };
    skip_line_end();
    skip_line_end();
    return bytes.substr(0, first) + bytes.substr(end);
  }
  return bytes;
}

void expect_identical(const Sample& sample) {
  for (std::size_t step = 1; step <= 40; ++step) {
    UsageFilter filter(sample.route, false);
    EXPECT_EQ(run_in_steps(filter, sample.bytes, step), sample.bytes)
        << sample.name << " step " << step;
  }
}

void expect_only_usage_missing(const Sample& sample) {
  const std::string expected =
      sample.route == Route::kResponses ? sample.bytes : without_usage_event(sample.bytes);
  for (std::size_t step = 1; step <= 40; ++step) {
    UsageFilter filter(sample.route, true);
    EXPECT_EQ(run_in_steps(filter, sample.bytes, step), expected)
        << sample.name << " step " << step;
  }
  for (std::size_t cut = 0; cut <= sample.bytes.size(); ++cut) {
    UsageFilter filter(sample.route, true);
    ASSERT_EQ(run(filter, sample.bytes, {cut}), expected) << sample.name << " cut at " << cut;
    ASSERT_EQ(filter.held_bytes(), 0u);
  }
}

TEST(UsageFilter, EveryByteOfOurStreamsPassesInEverySplit) {
  const auto samples = own_samples();
  ASSERT_GE(samples.size(), 15u);
  for (const auto& sample : samples) expect_identical(sample);
}

TEST(UsageFilter, ExactlyTheUsageEventIsMissingInEverySplit) {
  int dropped = 0;
  for (const auto& sample : own_samples()) {
    expect_only_usage_missing(sample);
    dropped += without_usage_event(sample.bytes) != sample.bytes ? 1 : 0;
  }
  EXPECT_GE(dropped, 11);
}

TEST(UsageFilter, RecordedEngineStreamsPassInEverySplit) {
  const fs::path folder = shared_fixtures() / "sse";
  if (!fs::exists(folder)) GTEST_SKIP() << "no recorded streams at " << folder;
  const auto samples = samples_in(folder);
  ASSERT_FALSE(samples.empty());
  for (const auto& sample : samples) {
    expect_identical(sample);
    expect_only_usage_missing(sample);
  }
}

TEST(UsageFilter, KimiToolCallStreamGivesItsUsage) {
  const fs::path file = shared_fixtures() / "sse/sglang_kimi-k2_toolcall_usage_complete.sse";
  if (!fs::exists(file)) GTEST_SKIP() << "no recorded stream at " << file;
  UsageFilter filter(Route::kChat, true);
  run_in_steps(filter, read(file), 7);
  ASSERT_TRUE(filter.facts().usage);
  EXPECT_EQ(filter.facts().usage->prompt.count(), 177);
  EXPECT_EQ(filter.facts().usage->completion.count(), 69);
  EXPECT_EQ(filter.dropped_events(), 1u);
  EXPECT_TRUE(filter.facts().done);
}

TEST(UsageFilter, LlamaCppTimingsStandInForUsage) {
  const fs::path file = shared_fixtures() / "sse/llamacpp_b6925_tail_with_timings.sse";
  if (!fs::exists(file)) GTEST_SKIP() << "no recorded stream at " << file;
  UsageFilter filter(Route::kChat, true);
  run_in_steps(filter, read(file), 100);
  ASSERT_TRUE(filter.facts().usage);
  EXPECT_EQ(filter.facts().usage->completion.count(), 2188);
  EXPECT_EQ(filter.facts().usage->prompt.count(), 89 + 58);
  EXPECT_EQ(filter.facts().usage->cached.count(), 89);
}

AnswerFacts facts_of(std::string_view name) {
  const std::string file(name);
  UsageFilter filter(route_of_file(file), true);
  run_in_steps(filter, stream(name), 13);
  return filter.facts();
}

TEST(UsageFilter, ReadsUsageFinishAndEndOfAChat) {
  const AnswerFacts facts = facts_of("chat_cjk_emoji.sse");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->prompt.count(), 12);
  EXPECT_EQ(facts.usage->completion.count(), 7);
  EXPECT_EQ(facts.usage->cached.count(), 8);
  EXPECT_EQ(facts.counted_events, 7);
  EXPECT_EQ(facts.finished_choices, 1);
  EXPECT_EQ(facts.choices, 1);
  EXPECT_FALSE(facts.length_limited);
  EXPECT_TRUE(facts.done);
  EXPECT_FALSE(facts.failed);
}

TEST(UsageFilter, CountsToolCallDeltas) {
  EXPECT_EQ(facts_of("chat_tool_calls.sse").counted_events, 6);
}

TEST(UsageFilter, SeesAnAnswerCutAtItsLimit) {
  EXPECT_TRUE(facts_of("chat_crlf_comments.sse").length_limited);
  EXPECT_TRUE(facts_of("completions.sse").length_limited);
  EXPECT_TRUE(facts_of("responses_incomplete.sse").length_limited);
}

TEST(UsageFilter, AnErrorInsideAStreamIsAFailure) {
  const AnswerFacts facts = facts_of("chat_error_event.sse");
  EXPECT_TRUE(facts.failed);
  EXPECT_EQ(facts.error, "the engine ran out of memory");
  EXPECT_FALSE(facts.done);
  EXPECT_TRUE(facts_of("chat_named_error_event.sse").failed);
  EXPECT_TRUE(facts_of("responses_failed.sse").failed);
}

TEST(UsageFilter, ContinuousUsageKeepsTheLast) {
  const AnswerFacts facts = facts_of("chat_continuous_usage.sse");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->completion.count(), 3);
}

TEST(UsageFilter, LogProbabilitiesThatAreNoJsonStillCount) {
  EXPECT_EQ(facts_of("chat_nan_logprobs.sse").counted_events, 1);
}

TEST(UsageFilter, ReadsResponsesEvents) {
  const AnswerFacts facts = facts_of("responses.sse");
  ASSERT_TRUE(facts.usage);
  EXPECT_EQ(facts.usage->prompt.count(), 9);
  EXPECT_EQ(facts.usage->completion.count(), 4);
  EXPECT_EQ(facts.usage->cached.count(), 2);
  EXPECT_EQ(facts.counted_events, 2);
  EXPECT_TRUE(facts.done);
}

TEST(UsageFilter, CountsSeveralChoices) {
  const AnswerFacts facts = facts_of("chat_two_choices.sse");
  EXPECT_EQ(facts.choices, 2);
  EXPECT_EQ(facts.finished_choices, 2);
  EXPECT_FALSE(learnable_length(facts, 1, true)) << "their lengths are only known as a sum";
}

constexpr std::string_view kChunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n";

TEST(UsageFilter, WithoutDroppingNothingIsHeld) {
  UsageFilter filter(Route::kChat, false);
  std::string out;
  filter.feed("data: {\"choices\":[],\"usa", out);
  EXPECT_EQ(out, "data: {\"choices\":[],\"usa");
  EXPECT_EQ(filter.held_bytes(), 0u);
  EXPECT_FALSE(filter.at_event_boundary());
}

TEST(UsageFilter, ACompleteChunkLeavesAtOnce) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  filter.feed(kChunk.substr(0, kChunk.size() - 1), out);
  EXPECT_EQ(out, kChunk.substr(0, kChunk.size() - 1)) << "the blank line is not waited for";
  EXPECT_FALSE(filter.at_event_boundary());
  filter.feed("\n", out);
  EXPECT_EQ(out, kChunk);
  EXPECT_TRUE(filter.at_event_boundary());
}

TEST(UsageFilter, CommentsLeaveBeforeTheirLineEnds) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  filter.feed(": pi", out);
  EXPECT_EQ(out, ": pi");
  filter.feed("ng\n\n", out);
  EXPECT_EQ(out, ": ping\n\n");
}

TEST(UsageFilter, BytesThatAreNoEventStreamLeaveAtOnce) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  filter.feed("{\"error\":", out);
  EXPECT_EQ(out, "{\"error\":");
}

TEST(UsageFilter, AnEndlessDataLineIsNotHeldForEver) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  const std::string piece(10'000, 'x');
  filter.feed("data: ", out);
  std::string sent = "data: ";
  for (int i = 0; i < 300; ++i) {
    filter.feed(piece, out);
    sent += piece;
    ASSERT_LE(filter.held_bytes(), 64u * 1024 + piece.size());
  }
  filter.feed("\n\n", out);
  filter.feed(kUsage, out);
  EXPECT_EQ(out, sent + "\n\n");
}

TEST(UsageFilter, EndlessFieldLinesAreNotHeldForEver) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  std::string sent;
  for (int i = 0; i < 20'000; ++i) {
    filter.feed("id: 7\n", out);
    sent += "id: 7\n";
    ASSERT_LE(filter.held_bytes(), 64u * 1024 + 6);
  }
  filter.finish(out);
  EXPECT_EQ(out, sent);
}

TEST(UsageFilter, FieldsOfTheDroppedEventGoWithIt) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  filter.feed(kChunk, out);
  filter.feed("event: usage\nid: 1\n", out);
  filter.feed(kUsage.substr(0, kUsage.size() - 1), out);
  filter.feed("retry: 5\n\n", out);
  filter.feed("data: [DONE]\n\n", out);
  EXPECT_EQ(out, std::string(kChunk) + "data: [DONE]\n\n");
  EXPECT_EQ(filter.dropped_events(), 1u);
}

TEST(UsageFilter, TheBlankLineOfAnEarlierDataLineStays) {
  UsageFilter filter(Route::kChat, true);
  std::string out;
  filter.feed("data: {\"choices\":[{}]}\n", out);
  filter.feed(kUsage, out);
  EXPECT_EQ(out, "data: {\"choices\":[{}]}\n\n");
}

TEST(UsageFilter, WhatOnlyLooksLikeUsageStays) {
  for (const std::string_view line : {
           "data: {\"choices\":[],\"usage\":null}\n\n",
           "data: {\"choices\":[]}\n\n",
           "data: {\"usage\":{\"completion_tokens\":1}}\n\n",
           "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"completion_tokens\":1}}\n\n",
           "data: {\"choices\":{},\"usage\":{}}\n\n",
           "data: {\"x\":{\"choices\":[],\"usage\":{}}}\n\n",
           "data: [[],{\"choices\":[],\"usage\":{}}]\n\n",
           "data: {\"choices\":[],\"usage\":{}} trailing\n\n",
           ": {\"choices\":[],\"usage\":{}}\n\n",
           "xdata: {\"choices\":[],\"usage\":{}}\n\n",
           "data: {\"choices\":[{\"text\":\"\\\"choices\\\":[],\\\"usage\\\":{}\"}]}\n\n",
       }) {
    UsageFilter filter(Route::kChat, true);
    EXPECT_EQ(run_in_steps(filter, line, 3), line);
  }
}

TEST(UsageFilter, EscapedAndRepeatedKeysAreReadAsClientsReadThem) {
  for (const std::string_view line : {
           "data: {\"ch\\u006fices\":[],\"usage\":{}}\n\n",
           "data: {\"choices\":[1],\"choices\":[],\"usage\":null,\"usage\":{}}\n\n",
           "data:{\"choices\":[],\"usage\":{}}\n\n",
       }) {
    UsageFilter filter(Route::kChat, true);
    EXPECT_EQ(run_in_steps(filter, line, 3), "") << line;
  }
}

TEST(UsageFilter, ACutStreamLosesNothing) {
  const std::string bytes = stream("chat_cjk_emoji.sse");
  const std::size_t usage = bytes.find(
      "data: {\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\","
      "\"created\":1700000000,\"model\":\"m\",\"choices\":[]");
  ASSERT_NE(usage, std::string::npos);
  for (std::size_t end = 0; end < usage; ++end) {
    UsageFilter filter(Route::kChat, true);
    std::string out;
    filter.feed(bytes.substr(0, end), out);
    filter.finish(out);
    ASSERT_EQ(out, bytes.substr(0, end));
  }
}

TEST(LearnableLength, UsageFirstThenCountedEvents) {
  AnswerFacts facts;
  facts.counted_events = 40;
  facts.finished_choices = 1;
  auto sample = learnable_length(facts, 1, true);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->length.count(), 40);
  EXPECT_TRUE(sample->estimated);
  EXPECT_FALSE(sample->censored);
  facts.usage = Usage{Tokens{5}, Tokens{0}, Tokens{0}};
  EXPECT_TRUE(learnable_length(facts, 1, true)->estimated)
      << "zero usage for an answer is no usage";
  facts.usage = Usage{Tokens{5}, Tokens{43}, Tokens{0}};
  sample = learnable_length(facts, 1, true);
  EXPECT_EQ(sample->length.count(), 43);
  EXPECT_FALSE(sample->estimated);
}

TEST(LearnableLength, CutAnswersAreCensoredAndFailuresNoSample) {
  AnswerFacts facts;
  facts.usage = Usage{Tokens{5}, Tokens{43}, Tokens{0}};
  facts.finished_choices = 1;
  EXPECT_FALSE(learnable_length(facts, 1, true)->censored);
  EXPECT_TRUE(learnable_length(facts, 1, false)->censored);
  facts.length_limited = true;
  EXPECT_TRUE(learnable_length(facts, 1, true)->censored);
  EXPECT_FALSE(learnable_length(facts, 2, true));
  facts.failed = true;
  EXPECT_FALSE(learnable_length(facts, 1, true));
  EXPECT_FALSE(learnable_length(AnswerFacts{}, 1, true));
}

}  // namespace
}  // namespace tailrace::gateway
