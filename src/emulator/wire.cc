#include "emulator/wire.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <iterator>

#include "tailrace/core/rng.h"

namespace tailrace::emulator {
namespace {

// Plain words; what they say does not matter, only that no byte needs escaping.
constexpr std::array<std::string_view, 32> kWords{
    " the",   " river", " carries", " small", " boats",   " past",   " stone", " and",
    " light", " until", " evening", " rain",  " settles", " over",   " every", " field",
    " a",     " mill",  " turns",   " grain", " into",    " flour",  " while", " water",
    " runs",  " quick", " through", " its",   " wheel",   " toward", " open",  " sea"};

std::string json_text(std::string_view text) {
  return boost::json::serialize(boost::json::string(text.data(), text.size()));
}

std::string_view finish_reason(const Choice& choice) {
  return choice.cut ? "length" : "stop";
}

}  // namespace

std::string_view token_text(std::uint64_t text_seed, std::int64_t index) {
  // A multiplicative step through the seed: cheap, and different prompts read differently.
  const std::uint64_t x = (text_seed + static_cast<std::uint64_t>(index)) * 0x9e3779b97f4a7c15ULL;
  return kWords[(x >> 59) % kWords.size()];
}

AnswerWriter::AnswerWriter(const GenerationRequest& request, std::string id, std::int64_t created_s)
    : chat_(request.chat),
      prompt_hash_(request.prompt_hash),
      prompt_tokens_(request.prompt_tokens) {
  const auto head = [&](std::string_view object) {
    return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"choices":[)",
                       json_text(id), object, created_s, json_text(request.model));
  };
  chunk_head_ = "data: " + head(chat_ ? "chat.completion.chunk" : "text_completion");
  whole_head_ = head(chat_ ? "chat.completion" : "text_completion");
}

std::uint64_t AnswerWriter::text_seed(std::int64_t choice) const {
  return prompt_hash_ + static_cast<std::uint64_t>(choice) * 0xd1342543de82ef95ULL;
}

void AnswerWriter::append_opening(std::string& to, std::int64_t choice) const {
  if (!chat_) return;
  to += chunk_head_;
  fmt::format_to(std::back_inserter(to),
                 R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,)"
                 R"("finish_reason":null}}]}})"
                 "\n\n",
                 choice);
}

void AnswerWriter::append_tokens(std::string& to, std::int64_t index, const Choice& choice,
                                 std::int64_t from, std::int64_t until) const {
  const std::uint64_t seed = text_seed(index);
  const std::string open =
      fmt::format(R"({{"index":{},{})", index, chat_ ? R"("delta":{"content":")" : R"("text":")");
  const std::string_view close =
      chat_ ? R"("},"logprobs":null,"finish_reason":)" : R"(","logprobs":null,"finish_reason":)";
  for (std::int64_t k = from; k < until; ++k) {
    const bool last = k + 1 == choice.tokens;
    to += chunk_head_;
    to += open;
    // A natural end is a token without text, as an engine's end-of-sequence token is.
    if (!last || choice.cut) to += token_text(seed, k);
    to += close;
    if (last) {
      to += '"';
      to += finish_reason(choice);
      to += "\",\"stop_reason\":null}]}\n\n";
    } else {
      to += "null}]}\n\n";
    }
  }
}

std::string AnswerWriter::usage(std::int64_t completion_tokens) const {
  return fmt::format(R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{}}})",
                     prompt_tokens_, prompt_tokens_ + completion_tokens, completion_tokens);
}

void AnswerWriter::append_usage(std::string& to, std::int64_t completion_tokens) const {
  to += chunk_head_;
  to += "],\"usage\":";
  to += usage(completion_tokens);
  to += "}\n\n";
}

void AnswerWriter::append_done(std::string& to) {
  to += "data: [DONE]\n\n";
}

void AnswerWriter::append_error(std::string& to, std::string_view message) {
  to += "data: ";
  to += error_body(500, "InternalServerError", message);
  to += "\n\n";
}

std::string AnswerWriter::whole(const std::vector<Choice>& choices) const {
  std::string body = whole_head_;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    const auto index = static_cast<std::int64_t>(i);
    total += choice.tokens;
    if (i > 0) body += ',';
    body += fmt::format(R"({{"index":{},{})", index,
                        chat_ ? R"("message":{"role":"assistant","content":")" : R"("text":")");
    const std::int64_t spoken = choice.cut ? choice.tokens : choice.tokens - 1;
    for (std::int64_t k = 0; k < spoken; ++k) body += token_text(text_seed(index), k);
    body += chat_ ? R"("},"logprobs":null,"finish_reason":")"
                  : R"(","logprobs":null,"finish_reason":")";
    body += finish_reason(choice);
    body += R"(","stop_reason":null})";
  }
  body += "],\"usage\":";
  body += usage(total);
  body += '}';
  return body;
}

std::string error_body(int status, std::string_view type, std::string_view message) {
  return fmt::format(R"({{"error":{{"message":{},"type":{},"param":null,"code":{}}}}})",
                     json_text(message), json_text(type), status);
}

std::string models_body(std::string_view model, std::int64_t created_s,
                        std::int64_t max_model_len) {
  return fmt::format(
      R"({{"object":"list","data":[{{"id":{},"object":"model","created":{},"owned_by":"tailrace",)"
      R"("root":{},"parent":null,"max_model_len":{}}}]}})",
      json_text(model), created_s, json_text(model), max_model_len);
}

}  // namespace tailrace::emulator
