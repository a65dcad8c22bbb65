#include "gateway/request_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace tailrace::gateway {
namespace {

ParsedRequest parse(std::string_view body, Route route = Route::kChat) {
  auto request = read_request(route, body);
  EXPECT_TRUE(request) << body << ": " << (request ? "" : request.error().message);
  return request.value_or(ParsedRequest{});
}

std::string refusal(std::string_view body, Route route = Route::kChat) {
  const auto request = read_request(route, body);
  EXPECT_FALSE(request) << body;
  if (request) return "";
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument) << body;
  return request.error().message;
}

TEST(RequestReader, ReadsAnOrdinaryChat) {
  const auto request = parse(R"({
    "model": "llama", "stream": true, "max_tokens": 200, "temperature": 0.7, "n": 2,
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"},
                 {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Why is the sky blue?"}]})");
  EXPECT_EQ(request.model, "llama");
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.usage_asked);
  EXPECT_EQ(request.slots, 2);
  EXPECT_EQ(request.limit, Tokens{200});
  EXPECT_EQ(request.features.route, "chat");
  EXPECT_EQ(request.features.prompt_head, "Why is the sky blue?");
  EXPECT_EQ(request.features.prompt_tail, "Why is the sky blue?");
  EXPECT_NE(request.features.system_fingerprint, 0u);
  EXPECT_EQ(request.features.response_format, "json_object");
  EXPECT_EQ(request.features.tools, 1);
  EXPECT_TRUE(request.features.tool_choice_forced);
  EXPECT_EQ(request.features.turns, 4);
  EXPECT_EQ(request.features.temperature, 0.7);
}

TEST(RequestReader, MissingThingsAreTheEnginesBusiness) {
  const auto request = parse("{}");
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.slots, 1);
  EXPECT_FALSE(request.limit);
  EXPECT_EQ(request.features.turns, 1);
}

TEST(RequestReader, NullIsAbsent) {
  const auto request =
      parse(R"({"model":null,"stream":null,"n":null,"max_tokens":null,"messages":null,
    "stream_options":null,"tools":null,"temperature":null,"response_format":null})");
  EXPECT_FALSE(request.limit);
  EXPECT_EQ(request.slots, 1);
}

TEST(RequestReader, MalformedJsonIsRefusedWithAReason) {
  for (const std::string_view body :
       {"", " ", "{", "{\"model\":}", "{} {}", "[1,2", "nul", "{\"a\":01}", "{\"a\":NaN}",
        "{\"a\":-Infinity}", "{\"a\":1,}", "{'a':1}", "\"\\u12\"", "{\"a\":\"\x01\"}"}) {
    EXPECT_NE(refusal(body), "") << body;
  }
}

TEST(RequestReader, InvalidUtf8IsRefused) {
  EXPECT_NE(refusal("{\"model\":\"\xff\"}").find("UTF-8"), std::string::npos);
  EXPECT_NE(refusal("{\"model\":\"\xed\xa0\x80\"}").find("UTF-8"), std::string::npos)
      << "a surrogate";
}

TEST(RequestReader, WrongTypesAreNamed) {
  EXPECT_EQ(refusal(R"({"model":7})"), "model must be a string");
  EXPECT_EQ(refusal(R"({"stream":"yes"})"), "stream must be true or false");
  EXPECT_EQ(refusal(R"({"n":"2"})"), "n must be a number");
  EXPECT_EQ(refusal(R"({"max_tokens":"many"})"), "max_tokens must be a number");
  EXPECT_EQ(refusal(R"({"max_completion_tokens":[]})"), "max_completion_tokens must be a number");
  EXPECT_EQ(refusal(R"({"messages":"hi"})"), "messages must be an array");
  EXPECT_EQ(refusal(R"({"stream_options":[]})"), "stream_options must be an object");
  EXPECT_EQ(refusal(R"({"stream_options":{"include_usage":1}})"),
            "stream_options.include_usage must be true or false");
  EXPECT_EQ(refusal("[]"), "the body must be a JSON object");
  EXPECT_NE(refusal(R"({"prompt":{}})", Route::kCompletions).find("prompt must be"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"prompt":[true]})", Route::kCompletions).find("prompt must be"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"input":7})", Route::kResponses), "input must be a string or an array");
}

TEST(RequestReader, LimitsNeverFailAndAreClipped) {
  const auto limit = [](std::string_view number) {
    return parse("{\"max_tokens\":" + std::string(number) + "}").limit;
  };
  EXPECT_EQ(limit("0"), Tokens{1});
  EXPECT_EQ(limit("1"), Tokens{1});
  EXPECT_EQ(limit("-1"), std::nullopt) << "no limit, in llama.cpp's words";
  EXPECT_EQ(limit("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(limit("9223372036854775807"), Tokens{kCapMax});
  EXPECT_EQ(limit("9223372036854775808"), Tokens{kCapMax});
  EXPECT_EQ(limit("18446744073709551616"), Tokens{kCapMax});
  EXPECT_EQ(limit("123456789012345678901234567890123456789012345678901234567890"), Tokens{kCapMax});
  EXPECT_EQ(limit("1e999"), Tokens{kCapMax});
  EXPECT_EQ(limit("-1e999"), std::nullopt);
  EXPECT_EQ(limit("1e-999"), Tokens{1});
  EXPECT_EQ(limit("16.9"), Tokens{16});
  EXPECT_EQ(limit("1.5e2"), Tokens{150});
  EXPECT_EQ(limit("0.0"), Tokens{1});
}

TEST(RequestReader, HugeNumbersElsewhereDoNotMatter) {
  const auto request =
      parse(R"({"model":"m","seed":123456789012345678901234567890,"x":[1e400,-1E+400],
    "s":"1e999 \" 1e999"})");
  EXPECT_EQ(request.model, "m");
}

TEST(RequestReader, TheSmallestLimitCounts) {
  EXPECT_EQ(parse(R"({"max_tokens":100,"max_completion_tokens":50})").limit, Tokens{50});
  EXPECT_EQ(parse(R"({"max_tokens":20,"max_completion_tokens":50})").limit, Tokens{20});
  EXPECT_EQ(parse(R"({"max_tokens":-1,"max_completion_tokens":50})").limit, Tokens{50});
  EXPECT_EQ(parse(R"({"max_output_tokens":9,"max_tokens":3})", Route::kResponses).limit, Tokens{9});
}

TEST(RequestReader, TheLastOfTwoEqualKeysCounts) {
  EXPECT_EQ(parse(R"({"model":"a","model":"b"})").model, "b");
  EXPECT_EQ(parse(R"({"max_tokens":5,"max_tokens":null})").limit, std::nullopt);
  EXPECT_EQ(parse(R"({"max_tokens":5,"max\u005ftokens":7})").limit, Tokens{7});
  EXPECT_EQ(parse(R"({"stream_options":{"include_usage":true,"include_usage":false}})").usage_asked,
            false);
  EXPECT_FALSE(parse(R"({"stream":true,"stream":false})").stream);
}

TEST(RequestReader, SamplesTakeSlots) {
  EXPECT_EQ(parse(R"({"n":4})").slots, 4);
  EXPECT_EQ(parse(R"({"n":0})").slots, 1);
  EXPECT_EQ(parse(R"({"n":-3})").slots, 1);
  EXPECT_EQ(parse(R"({"n":2,"best_of":5})", Route::kCompletions).slots, 5);
  EXPECT_EQ(parse(R"({"n":2,"prompt":["a","b","c"]})", Route::kCompletions).slots, 6);
  EXPECT_EQ(parse(R"({"prompt":[1,2,3]})", Route::kCompletions).slots, 1);
  EXPECT_EQ(parse(R"({"prompt":[[1,2],[3]]})", Route::kCompletions).slots, 2);
  EXPECT_EQ(parse(R"({"prompt":[]})", Route::kCompletions).slots, 1);
  EXPECT_GE(parse(R"({"n":99999999999999999999})").slots, 1 << 20);
}

TEST(RequestReader, PromptTokensAreExactForIdsAndAQuarterOfTheBytesForText) {
  EXPECT_EQ(parse(R"({"prompt":[5,6,7]})", Route::kCompletions).prompt_tokens, Tokens{3});
  EXPECT_EQ(parse(R"({"prompt":[[5,6,7],[8]]})", Route::kCompletions).prompt_tokens, Tokens{4});
  EXPECT_EQ(parse(R"({"prompt":"abcdefgh"})", Route::kCompletions).prompt_tokens, Tokens{2});
  EXPECT_EQ(parse(R"({"prompt":"abcdefghi"})", Route::kCompletions).prompt_tokens, Tokens{3});
}

TEST(RequestReader, ImagesDoNotCountAsText) {
  const std::string image(100'000, 'A');
  const auto with =
      parse(R"({"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},
    {"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
            image + R"("}}]}]})");
  const auto without = parse(R"({"messages":[{"role":"user","content":"What is this?"}]})");
  EXPECT_EQ(with.prompt_tokens, without.prompt_tokens);
  EXPECT_EQ(with.features.prompt_head, "What is this?");
}

TEST(RequestReader, ToolsAndToolCallsCountAsText) {
  const auto bare = parse(R"({"messages":[{"role":"user","content":"x"}]})");
  const auto tools = parse(R"({"messages":[{"role":"user","content":"x"}],
    "tools":[{"type":"function","function":{"name":"weather","description":"A long description of it all"}}]})");
  EXPECT_GT(tools.prompt_tokens.count(), bare.prompt_tokens.count() + 8);
}

TEST(RequestReader, SystemPromptsAreTheSameOnlyIfTheirTextIs) {
  const auto fingerprint = [](std::string_view system) {
    return parse(R"({"messages":[{"role":"system","content":")" + std::string(system) +
                 R"("},{"role":"user","content":"hi"}]})")
        .features.system_fingerprint;
  };
  EXPECT_EQ(fingerprint("a"), fingerprint("a"));
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
  EXPECT_EQ(parse(R"({"messages":[{"role":"user","content":"hi"}]})").features.system_fingerprint,
            0u);
  EXPECT_EQ(
      parse(R"({"instructions":"a","input":"hi"})", Route::kResponses).features.system_fingerprint,
      fingerprint("a"));
}

TEST(RequestReader, TurnsOfOneConversationBeginAlike) {
  const auto prefix = [](const char* body) {
    return read_request(Route::kChat, body).value().prefix;
  };
  const auto first = prefix(
      R"({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]})");
  const auto second = prefix(
      R"({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
                       {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Why?"}],
          "tools": [{"type": "function"}]})");
  const auto other = prefix(
      R"({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Ho"}]})");
  EXPECT_NE(first, 0u);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_EQ(prefix(R"({"messages": []})"), 0u);
}

TEST(RequestReader, HeadAndTailAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "世";
  const auto request = parse(R"({"messages":[{"role":"user","content":"x)" + text + "\"}]}");
  EXPECT_EQ(request.features.prompt_head.size(), 1u + 170 * 3);
  EXPECT_EQ(request.features.prompt_tail.size(), 170u * 3);
  EXPECT_TRUE(request.features.prompt_head.ends_with("世"));
  EXPECT_TRUE(request.features.prompt_tail.starts_with("世"));
}

TEST(RequestReader, ReadsResponsesInput) {
  const auto text =
      parse(R"({"model":"m","input":"Hello","max_output_tokens":10})", Route::kResponses);
  EXPECT_EQ(text.features.prompt_head, "Hello");
  EXPECT_EQ(text.limit, Tokens{10});
  const auto items =
      parse(R"({"input":[{"role":"user","content":[{"type":"input_text","text":"Hello"}]},
    {"type":"function_call_output","call_id":"c","output":"42"}],"text":{"format":{"type":"json_schema"}}})",
            Route::kResponses);
  EXPECT_EQ(items.features.prompt_head, "Hello");
  EXPECT_EQ(items.features.response_format, "json_schema");
  EXPECT_EQ(items.features.turns, 2);
}

TEST(RequestReader, TellsWhatTheModelSaidBefore) {
  const auto chat = parse(R"({"messages": [
    {"role": "user", "content": "a"}, {"role": "assistant", "content": "12345678"},
    {"role": "user", "content": "b"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "content": "a long answer of a tool that the model did not say"},
    {"role": "user", "content": "c"}]})");
  EXPECT_EQ(chat.features.earlier_answers, 2);
  EXPECT_GE(chat.features.last_answer, Tokens{2});
  EXPECT_LT(chat.features.last_answer, Tokens{12});
  const auto first = parse(R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(first.features.earlier_answers, 0);
  const auto responses = parse(R"({"input": [
    {"role": "user", "content": "a"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1234"}]},
    {"type": "function_call", "name": "f", "arguments": "12345678"},
    {"type": "function_call_output", "output": "not the model's"}]})",
                               Route::kResponses);
  EXPECT_EQ(responses.features.earlier_answers, 2);
  EXPECT_EQ(responses.features.last_answer, Tokens{2});
}

TEST(RequestReader, ReadsWhatTheSamplerIsTold) {
  const auto request =
      parse(R"({"top_p": 0.9, "min_tokens": 32, "stop": ["a", "b"], "reasoning_effort": "high"})");
  EXPECT_EQ(request.features.top_p, 0.9);
  EXPECT_EQ(request.features.min_tokens, Tokens{32});
  EXPECT_EQ(request.features.stop_sequences, 2);
  EXPECT_EQ(request.features.reasoning_effort, "high");
  EXPECT_EQ(parse(R"({"stop": "x"})").features.stop_sequences, 1);
  const auto responses = parse(R"({"reasoning": {"effort": "low"}})", Route::kResponses);
  EXPECT_EQ(responses.features.reasoning_effort, "low");
  const auto switched = parse(R"({"chat_template_kwargs": {"enable_thinking": false}})");
  EXPECT_EQ(switched.features.reasoning_effort, "none");
  // Of the wrong type it is the engine's business.
  const auto odd = parse(R"({"top_p": "x", "min_tokens": {}, "stop": 1, "reasoning": [1]})");
  EXPECT_FALSE(odd.features.top_p);
  EXPECT_EQ(odd.features.min_tokens, Tokens{0});
  EXPECT_EQ(odd.features.stop_sequences, 0);
  EXPECT_EQ(odd.features.reasoning_effort, "");
}

TEST(RequestReader, OneTextHasOneFingerprint) {
  const auto chat = parse(R"({"messages": [{"role": "user", "content": "Why?"}]})");
  const auto later = parse(R"({"messages": [{"role": "system", "content": "s"},
                              {"role": "user", "content": "Why?"}]})");
  const auto other = parse(R"({"messages": [{"role": "user", "content": "How?"}]})");
  EXPECT_NE(chat.features.prompt_fingerprint, 0u);
  EXPECT_EQ(chat.features.prompt_fingerprint, later.features.prompt_fingerprint);
  EXPECT_NE(chat.features.prompt_fingerprint, other.features.prompt_fingerprint);
}

std::string nested(int levels) {
  return "{\"x\":" + std::string(static_cast<std::size_t>(levels - 1), '[') + "1" +
         std::string(static_cast<std::size_t>(levels - 1), ']') + "}";
}

TEST(RequestReader, DepthIsLimited) {
  parse(nested(static_cast<int>(kJsonDepthMax)));
  EXPECT_NE(refusal(nested(static_cast<int>(kJsonDepthMax) + 1)).find("64 levels"),
            std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')), "");
}

TEST(RequestReader, BigBodiesAreRead) {
  const std::string image(20'000'000, 'A');
  const auto request =
      parse(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
            image + R"("}}]}],"model":"m","stream":true})");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream);
}

TEST(SettleCap, SmallestOfLimitAndContext) {
  const auto cap = [](std::string_view limit, std::optional<Tokens> context,
                      std::optional<Tokens> standard) {
    auto request =
        parse("{\"prompt\":[1,2,3,4,5,6,7,8,9,10],\"max_tokens\":" + std::string(limit) + "}",
              Route::kCompletions);
    settle_cap(request, ModelConfig{context, standard}, Tokens{4096});
    EXPECT_EQ(request.cap, request.features.cap);
    EXPECT_EQ(request.features.cap_is_explicit, limit != "null");
    return request.cap.count();
  };
  EXPECT_EQ(cap("100", std::nullopt, std::nullopt), 100);
  EXPECT_EQ(cap("100", Tokens{60}, std::nullopt), 50);
  EXPECT_EQ(cap("null", Tokens{60}, std::nullopt), 50);
  EXPECT_EQ(cap("null", Tokens{5}, std::nullopt), 1);
  EXPECT_EQ(cap("null", std::nullopt, std::nullopt), 4096);
  EXPECT_EQ(cap("null", std::nullopt, Tokens{256}), 256);
  EXPECT_EQ(cap("null", Tokens{60}, Tokens{256}), 50);
  EXPECT_EQ(cap("1000", std::nullopt, Tokens{256}), 1000);
}

TEST(WithUsageRequest, EveryShapeOfStreamOptions) {
  EXPECT_EQ(with_usage_request(R"({"stream":true})"),
            R"({"stream_options":{"include_usage":true},"stream":true})");
  EXPECT_EQ(with_usage_request(" {\n \"stream\" : true } "),
            " {\"stream_options\":{\"include_usage\":true},\n \"stream\" : true } ");
  EXPECT_EQ(with_usage_request(R"({"stream_options": null ,"a":1})"),
            R"({"stream_options": {"include_usage":true} ,"a":1})");
  EXPECT_EQ(with_usage_request(R"({"stream_options":{}})"),
            R"({"stream_options":{"include_usage":true}})");
  EXPECT_EQ(with_usage_request(R"({"stream_options":{ "x":[{}] }})"),
            R"({"stream_options":{"include_usage":true, "x":[{}] }})");
  EXPECT_EQ(with_usage_request(R"({"stream_options":{"x":1,"include_usage" : false}})"),
            R"({"stream_options":{"x":1,"include_usage" : true}})");
  EXPECT_EQ(with_usage_request(R"({"stream_options":{"include_usage":null}})"),
            R"({"stream_options":{"include_usage":true}})");
  EXPECT_EQ(with_usage_request("{}"), R"({"stream_options":{"include_usage":true}})");
}

TEST(WithUsageRequest, OnlyTheTopLevelAndTheLastCount) {
  EXPECT_EQ(
      with_usage_request(
          R"({"m":{"stream_options":{"include_usage":false}},"t":"\"stream_options\":{"})"),
      R"({"stream_options":{"include_usage":true},"m":{"stream_options":{"include_usage":false}},"t":"\"stream_options\":{"})");
  EXPECT_EQ(
      with_usage_request(R"({"stream_options":{"include_usage":true},"stream_options":null})"),
      R"({"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}})");
  EXPECT_EQ(with_usage_request(R"({"stream\u005foptions":{"include_usage":false}})"),
            R"({"stream\u005foptions":{"include_usage":true}})");
}

TEST(RequestHints, OurNamesWinOverAliases) {
  const net::Headers headers{{"X-Tailrace-Tenant", "a"},
                             {"x-llm-d-inference-fairness-id", "b"},
                             {"x-slo-ttft-ms", "250"},
                             {"x-tailrace-priority", "-2"},
                             {"x-tailrace-length-law", "log-t;mu=4.6;sigma=0.75"}};
  const auto hints = read_hints(headers, false);
  ASSERT_TRUE(hints);
  EXPECT_EQ(hints->tenant, "a");
  EXPECT_EQ(hints->priority, -2);
  EXPECT_EQ(hints->deadline, std::chrono::milliseconds(250));
  EXPECT_FALSE(hints->law) << "not accepted";
  const auto accepted = read_hints(headers, true);
  ASSERT_TRUE(accepted && accepted->law);
  EXPECT_EQ(*accepted->law->as_log_t(), (length::LogT{4.6, 0.75, 3.5}));
}

TEST(RequestHints, BadValuesAreNamed) {
  const auto message = [](std::string name, std::string value) {
    const auto hints = read_hints(net::Headers{{std::move(name), std::move(value)}}, true);
    EXPECT_FALSE(hints);
    return hints ? std::string() : hints.error().message;
  };
  EXPECT_NE(message("x-tailrace-priority", "high").find("x-tailrace-priority: \"high\""),
            std::string::npos);
  EXPECT_NE(message("x-tailrace-priority", "99999999999").find("±"), std::string::npos);
  EXPECT_NE(message("x-tailrace-deadline-ms", "-5").find("milliseconds"), std::string::npos);
  EXPECT_NE(message("x-tailrace-deadline-ms", "9223372036854775807").find("milliseconds"),
            std::string::npos);
  EXPECT_NE(message("x-tailrace-length-law", "normal;mu=1").find("normal"), std::string::npos);
  EXPECT_NE(message("x-tailrace-length-law", "log-t;mu=1").find("sigma"), std::string::npos);
  EXPECT_NE(message("x-tailrace-length-law", "log-t;mu=1;sigma=-1").find("sigma"),
            std::string::npos);
  EXPECT_NE(message("x-tailrace-length-law", "log-t;mu=nan;sigma=1"), "");
  EXPECT_NE(message("x-tailrace-length-law", "log-t;mu=1;mu=2;sigma=1"), "");
}

}  // namespace
}  // namespace tailrace::gateway
