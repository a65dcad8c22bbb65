#include "loadgen/answer_reader.h"

#include <simdjson.h>

#include "tailrace/core/text.h"

namespace tailrace::loadgen {
namespace {

using simdjson::dom::element;

constexpr std::size_t kBodyBytesMax = 64 * 1024 * 1024;
constexpr std::size_t kErrorBytesMax = 256;

/// One parser a thread: its buffers grow once and are used for every event.
simdjson::dom::parser& parser() {
  thread_local simdjson::dom::parser instance;
  return instance;
}

/// {"error": {"message": "…"}} or {"error": "…"}.
std::string message_of(element error) {
  std::string_view text;
  if (error["message"].get(text) != simdjson::SUCCESS && error.get(text) != simdjson::SUCCESS) {
    return {};
  }
  return std::string(core::utf8_prefix(text, kErrorBytesMax));
}

bool has_text(element holder, const char* key) {
  std::string_view text;
  return holder[key].get(text) == simdjson::SUCCESS && !text.empty();
}

/// Does this choice of a chunk carry a token? Engines put reasoning and tool calls beside content.
bool carries_token(element choice) {
  if (has_text(choice, "text")) return true;
  element delta;
  if (choice["delta"].get(delta) != simdjson::SUCCESS) return false;
  simdjson::dom::array calls;
  return has_text(delta, "content") || has_text(delta, "reasoning_content") ||
         has_text(delta, "reasoning") ||
         (delta["tool_calls"].get(calls) == simdjson::SUCCESS && calls.size() > 0);
}

}  // namespace

AnswerReader::AnswerReader(bool event_stream, UniqueFunction<void(double)> on_gap)
    : event_stream_(event_stream),
      on_gap_(std::move(on_gap)),
      line_handler_([this](const net::EventLine& line) { on_line(line); }) {}

void AnswerReader::feed(std::string_view bytes, double at_s) {
  now_s_ = at_s;
  if (event_stream_) {
    scanner_.feed(bytes, line_handler_);
  } else if (body_.size() + bytes.size() <= kBodyBytesMax) {
    body_ += bytes;
  } else {
    too_long_ = true;
  }
}

void AnswerReader::on_line(const net::EventLine& line) {
  if (line.kind != net::EventLine::Kind::kData) return;
  if (line.value == "[DONE]") {
    done_ = true;
  } else {
    read_document(line.value, true);
  }
}

void AnswerReader::read_document(std::string_view json, bool chunk) {
  element document;
  if (parser().parse(json.data(), json.size()).get(document) != simdjson::SUCCESS) {
    malformed_ = true;
    return;
  }
  element error;
  if (document["error"].get(error) == simdjson::SUCCESS && !error.is_null()) {
    failed_ = true;
    if (error_message_.empty()) error_message_ = message_of(error);
  }
  std::int64_t tokens = 0;
  if (document["usage"]["completion_tokens"].get(tokens) == simdjson::SUCCESS)
    usage_tokens_ = tokens;
  simdjson::dom::array choices;
  if (document["choices"].get(choices) != simdjson::SUCCESS) return;
  for (element choice : choices) {
    std::string_view reason;
    const bool ends = choice["finish_reason"].get(reason) == simdjson::SUCCESS;
    if (ends) finish_reason_ = reason;
    if (!chunk || !(carries_token(choice) || ends)) continue;
    ++token_events_;
    if (last_token_s_) on_gap_(now_s_ - *last_token_s_);
    if (!first_token_s_) first_token_s_ = now_s_;
    last_token_s_ = now_s_;
  }
}

std::string AnswerReader::finish() {
  if (!event_stream_) {
    if (too_long_) return "bad_body";
    read_document(body_, false);
    if (failed_) return "stream_error";
    return malformed_ || finish_reason_.empty() ? "bad_body" : "";
  }
  if (failed_) return "stream_error";
  if (malformed_) return "bad_body";
  return finish_reason_.empty() && !done_ ? "stream_cut" : "";
}

}  // namespace tailrace::loadgen
