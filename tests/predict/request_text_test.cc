#include "predict/request_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace tailrace::predict {
namespace {

RequestFeatures with_prompt(std::string prompt) {
  RequestFeatures request;
  request.prompt_head = prompt;
  request.prompt_tail = std::move(prompt);
  return request;
}

std::set<std::uint64_t> hashes(const RequestFeatures& request) {
  FeatureList list;
  extract_features(request, list);
  std::set<std::uint64_t> out;
  for (const auto& feature : list) out.insert(feature.hash);
  return out;
}

std::size_t in_common(const RequestFeatures& a, const RequestFeatures& b) {
  const auto of_b = hashes(b);
  const auto of_a = hashes(a);
  return static_cast<std::size_t>(
      std::count_if(of_a.begin(), of_a.end(), [&](auto hash) { return of_b.contains(hash); }));
}

TEST(RequestText, IgnoresTheCaseOfLettersInWords) {
  const auto lower = with_prompt("write a poem");
  const auto upper = with_prompt("Write A Poem");
  const auto other = with_prompt("count my eggs");
  EXPECT_GT(in_common(lower, upper), in_common(lower, other) + 5);
}

TEST(RequestText, NumbersOfOneSizeLookAlikeAndOfAnotherDoNot) {
  const auto ask = [](const char* n) {
    return with_prompt(std::string("In ") + n + " words tell me why");
  };
  EXPECT_EQ(hashes(ask("500")), hashes(ask("510")));
  EXPECT_NE(hashes(ask("500")), hashes(ask("050")));
}

TEST(RequestText, ScriptsWithoutSpacesShareCharacterPairs) {
  const auto a = with_prompt("请写一首关于春天的诗");
  const auto b = with_prompt("请写一首关于秋天的诗");
  const auto c = with_prompt("今日は何曜日ですか");
  EXPECT_GT(in_common(a, b), in_common(a, c) + 10);
}

TEST(RequestText, ClosingWordsAreTheLastOnesWhateverTheScript) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "写";
  RequestFeatures a = with_prompt(text + "短");
  RequestFeatures b = with_prompt(text + "长");
  EXPECT_NE(hashes(a), hashes(b));
}

TEST(RequestText, ShortPromptMayLeaveTheTailOut) {
  RequestFeatures once = with_prompt("How old is the moon?");
  RequestFeatures twice = once;
  twice.prompt_tail.clear();
  EXPECT_EQ(hashes(once), hashes(twice));
}

TEST(RequestText, EveryFieldIsSeen) {
  const RequestFeatures base = with_prompt("Hello there");
  const auto changed = [&](auto change) {
    RequestFeatures request = base;
    change(request);
    return hashes(request) != hashes(base);
  };
  EXPECT_TRUE(changed([](auto& r) { r.model = "m"; }));
  EXPECT_TRUE(changed([](auto& r) { r.tenant = "t"; }));
  EXPECT_TRUE(changed([](auto& r) { r.route = "responses"; }));
  EXPECT_TRUE(changed([](auto& r) { r.system_fingerprint = 1; }));
  EXPECT_TRUE(changed([](auto& r) { r.response_format = "json_object"; }));
  EXPECT_TRUE(changed([](auto& r) { r.reasoning_effort = "high"; }));
  EXPECT_TRUE(changed([](auto& r) { r.tools = 3; }));
  EXPECT_TRUE(changed([](auto& r) { r.tool_choice_forced = true; }));
  EXPECT_TRUE(changed([](auto& r) { r.turns = 9; }));
  EXPECT_TRUE(changed([](auto& r) { r.prompt_tokens = Tokens(500); }));
  EXPECT_TRUE(changed([](auto& r) { r.cap_is_explicit = true; }));
  EXPECT_TRUE(changed([](auto& r) { r.temperature = 0.7; }));
  EXPECT_TRUE(changed([](auto& r) { r.min_tokens = Tokens(64); }));
  EXPECT_TRUE(changed([](auto& r) { r.stop_sequences = 1; }));
  EXPECT_TRUE(changed([](auto& r) { r.top_p = 0.9; }));
  EXPECT_TRUE(changed([](auto& r) { r.prompt_fingerprint = 1; }));
  EXPECT_TRUE(changed([](auto& r) { r.earlier_answers = 2; }));
}

TEST(RequestText, SpelledOutAndPluralAmountsAreTheSameAmount) {
  const auto digits = with_prompt("Say it in 3 paragraphs");
  const auto spelled = with_prompt("Say it in three paragraph");
  const auto other = with_prompt("Say it in three sentences");
  EXPECT_GT(in_common(digits, spelled), in_common(digits, other));
}

TEST(RequestText, CommasInsideANumberBelongToIt) {
  const auto name_of_amount = [](std::string prompt) {
    for (const auto& named : name_features(with_prompt(std::move(prompt)))) {
      if (named.name.starts_with("asks for 1")) return named.name;
    }
    return std::string();
  };
  EXPECT_EQ(name_of_amount("in 1,500 words"), "asks for 1,500 'words'");
  EXPECT_EQ(name_of_amount("in 1,50 words"), "asks for 1 '50'");
}

TEST(RequestText, ModelsOfOneFamilyHaveMoreInCommonThanStrangers) {
  const auto of_model = [](const char* name) {
    RequestFeatures request = with_prompt("Hello");
    request.model = name;
    return request;
  };
  const auto llama = of_model("meta-llama/Llama-3-8B-Instruct");
  EXPECT_GT(in_common(llama, of_model("unsloth/llama-3-70b")),
            in_common(llama, of_model("qwen/qwen2-72b")));
}

TEST(RequestText, SystemPromptOfAnotherTenantIsAnother) {
  RequestFeatures a = with_prompt("Hello");
  a.tenant = "a";
  a.system_fingerprint = 7;
  RequestFeatures b = a;
  b.tenant = "b";
  FeatureList list;
  extract_features(a, list);
  const auto of_b = hashes(b);
  for (const auto& feature : list) {
    EXPECT_FALSE(feature.part == Part::kTenant && of_b.contains(feature.hash));
  }
}

TEST(RequestText, NamesAreOfTheSameFeatures) {
  RequestFeatures request = with_prompt("Write 3 short poems about 春天 in ```code```?");
  request.model = "a/b-7b";
  request.temperature = 0.2;
  request.top_p = 0.5;
  request.cap_is_explicit = true;
  request.earlier_answers = 1;
  request.prompt_fingerprint = 9;
  request.system_fingerprint = 5;
  request.tools = 2;
  std::set<std::uint64_t> named;
  for (const auto& feature : name_features(request)) named.insert(feature.feature.hash);
  EXPECT_EQ(named, hashes(request));
}

TEST(RequestText, NamesArePrintableAndBoundedWhateverTheText) {
  std::string all_bytes;
  for (int i = 0; i < 4096; ++i) all_bytes.push_back(static_cast<char>(i * 7));
  RequestFeatures request = with_prompt(all_bytes + "\u202E\xC2\x9B" + std::string(400, 'w'));
  request.model = std::string(100'000, '\x1B');
  request.tenant = "\xE2\x80\xAE right to left";
  request.route = "\xFF\xFE";
  for (const auto& [feature, kind, name] : name_features(request)) {
    EXPECT_LE(name.size(), 200U);
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(name.find("\xE2\x80\xAE"), std::string::npos);
    EXPECT_EQ(name.find("\xC2\x9B"), std::string::npos);
    for (const char c : name) {
      EXPECT_GE(static_cast<unsigned char>(c), 0x20);
      EXPECT_NE(c, 0x7F);
    }
  }
}

TEST(RequestText, BoundsAndSortsWhateverComesIn) {
  std::string all_bytes;
  for (int i = 0; i < 4096; ++i) all_bytes.push_back(static_cast<char>(i * 7));
  std::string short_words;
  for (int i = 0; i < 100'000; ++i)
    short_words += std::string(1, static_cast<char>('a' + i % 26)) + " ";
  for (const std::string& text :
       {std::string(), std::string(1 << 20, 'x'), all_bytes, short_words, std::string(5000, '\xFF'),
        std::string(1000, '\0'), std::string(3000, '9')}) {
    RequestFeatures request = with_prompt(text);
    request.temperature = std::numeric_limits<double>::quiet_NaN();
    request.cap = Tokens(std::numeric_limits<std::int64_t>::min());
    request.cap_is_explicit = true;
    request.prompt_tokens = Tokens(std::numeric_limits<std::int64_t>::max());
    request.turns = std::numeric_limits<int>::min();
    request.tools = std::numeric_limits<int>::max();
    FeatureList list;
    extract_features(request, list);
    EXPECT_GT(list.size(), 10U);
    EXPECT_LE(list.size(), kMaxFeatures);
    for (std::size_t i = 1; i < list.size(); ++i) EXPECT_LT(list[i - 1].hash, list[i].hash);
    for (const auto& feature : list) EXPECT_TRUE(std::isfinite(feature.value));
  }
}

TEST(RequestText, LimitIsNeverReachedSoThatNoFeatureIsDropped) {
  // As many distinct words as both ends can hold, and every optional field.
  std::string text;
  for (int i = 0; i < 4000; ++i) {
    text += static_cast<char>('a' + i % 26);
    text += static_cast<char>('a' + (i / 26) % 26);
    text += ' ';
  }
  RequestFeatures request = with_prompt(text);
  request.prompt_tail = std::string(text.rbegin(), text.rend());
  request.temperature = 1;
  request.cap_is_explicit = true;
  request.min_tokens = Tokens(5);
  request.stop_sequences = 2;
  request.reasoning_effort = "low";
  FeatureList list;
  extract_features(request, list);
  EXPECT_LT(list.size(), kMaxFeatures);
}

}  // namespace
}  // namespace tailrace::predict
