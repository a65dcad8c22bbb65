#include "gateway/answer_reading.h"

#include <algorithm>

namespace tailrace::gateway {
namespace {

constexpr std::int64_t kCountMax = std::int64_t{1} << 40;
constexpr std::int64_t kChoicesMax = 1 << 20;
constexpr std::size_t kErrorBytesMax = 256;

bool has_text(const json::Object& object, std::string_view key) {
  std::string_view text;
  return json::find_string(object, key, text) && !text.empty();
}

bool has_items(const json::Object& object, std::string_view key) {
  json::Array items;
  return json::find_array(object, key, items) && items.begin() != items.end();
}

/// `prompt_tokens`/`completion_tokens`, or `input_tokens`/`output_tokens` in the Responses API.
void note_usage(Route route, const json::Object& usage, AnswerFacts& facts) {
  const bool responses = route == Route::kResponses;
  const std::string_view prompt_key = responses ? "input_tokens" : "prompt_tokens";
  const std::string_view completion_key = responses ? "output_tokens" : "completion_tokens";
  const std::string_view details_key = responses ? "input_tokens_details" : "prompt_tokens_details";
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  std::int64_t cached = 0;
  if (!json::find_clipped(usage, completion_key, 0, kCountMax, completion)) return;
  json::find_clipped(usage, prompt_key, 0, kCountMax, prompt);
  json::Object details;
  if (json::find_object(usage, details_key, details)) {
    json::find_clipped(details, "cached_tokens", 0, kCountMax, cached);
  }
  facts.usage = Usage{Tokens{prompt}, Tokens{completion}, Tokens{cached}};
}

/// llama.cpp reports exact counts in `timings`, asked for usage or not.
void note_timings(const json::Object& document, AnswerFacts& facts) {
  json::Object timings;
  std::int64_t predicted = 0;
  if (facts.usage || !json::find_object(document, "timings", timings)) return;
  if (!json::find_clipped(timings, "predicted_n", 0, kCountMax, predicted)) return;
  std::int64_t evaluated = 0;
  std::int64_t cached = 0;
  json::find_clipped(timings, "prompt_n", 0, kCountMax, evaluated);
  json::find_clipped(timings, "cache_n", 0, kCountMax, cached);
  facts.usage = Usage{Tokens{evaluated + cached}, Tokens{predicted}, Tokens{cached}};
}

void note_failure(std::string_view message, AnswerFacts& facts) {
  facts.failed = true;
  if (facts.error.empty()) facts.error = message.substr(0, kErrorBytesMax);
}

/// {"error": {...}}, {"error": "..."} and the older {"object": "error", "message": ...}.
void note_error(const json::Object& document, AnswerFacts& facts) {
  json::Element error;
  json::Object object;
  std::string_view text;
  if (json::find(document, "error", error)) {
    std::string_view message;
    if (error.get(object) == simdjson::SUCCESS) {
      json::find_string(object, "message", message);
    } else if (error.get(text) == simdjson::SUCCESS) {
      message = text;
    }
    note_failure(message, facts);
  } else if (json::find_string(document, "object", text) && text == "error") {
    std::string_view message;
    json::find_string(document, "message", message);
    note_failure(message, facts);
  }
}

void note_finish(const json::Object& choice, AnswerFacts& facts) {
  std::string_view reason;
  if (!json::find_string(choice, "finish_reason", reason) || reason.empty()) return;
  ++facts.finished_choices;
  if (reason == "length") facts.length_limited = true;
  if (reason == "error" || reason == "abort") note_failure(reason, facts);
}

bool carries_output(Route route, const json::Object& choice) {
  if (route == Route::kCompletions) return has_text(choice, "text");
  json::Object delta;
  if (!json::find_object(choice, "delta", delta)) return false;
  json::Object call;
  return has_text(delta, "content") || has_text(delta, "reasoning_content") ||
         has_text(delta, "reasoning") || has_text(delta, "refusal") ||
         has_items(delta, "tool_calls") || json::find_object(delta, "function_call", call);
}

void note_choices(Route route, const json::Object& document, bool streamed, AnswerFacts& facts) {
  json::Array choices;
  if (!json::find_array(document, "choices", choices)) return;
  bool output = false;
  for (const auto item : choices) {
    json::Object choice;
    if (item.get(choice) != simdjson::SUCCESS) continue;
    std::int64_t index = 0;
    json::find_clipped(choice, "index", 0, kChoicesMax - 1, index);
    facts.choices = std::max(facts.choices, static_cast<int>(index) + 1);
    note_finish(choice, facts);
    output = output || (streamed && carries_output(route, choice));
  }
  if (output) ++facts.counted_events;
}

/// A response object of the Responses API, whole or inside a terminal event.
void note_response(const json::Object& response, AnswerFacts& facts) {
  facts.choices = 1;
  json::Object usage;
  if (json::find_object(response, "usage", usage)) note_usage(Route::kResponses, usage, facts);
  note_error(response, facts);
  std::string_view status;
  json::find_string(response, "status", status);
  if (status == "completed" || status == "incomplete") ++facts.finished_choices;
  if (status == "failed" || status == "cancelled") note_failure(status, facts);
  json::Object details;
  std::string_view reason;
  if (status == "incomplete" && json::find_object(response, "incomplete_details", details) &&
      json::find_string(details, "reason", reason) && reason == "max_output_tokens") {
    facts.length_limited = true;
  }
}

void note_responses_event(const json::Object& event, AnswerFacts& facts) {
  std::string_view type;
  if (!json::find_string(event, "type", type)) return note_error(event, facts);
  if (type.ends_with(".delta")) {
    ++facts.counted_events;
  } else if (type == "error") {
    std::string_view message;
    json::find_string(event, "message", message);
    note_failure(message, facts);
  } else if (type == "response.completed" || type == "response.incomplete" ||
             type == "response.failed" || type == "response.cancelled") {
    facts.done = true;
    json::Object response;
    if (json::find_object(event, "response", response)) note_response(response, facts);
    if (type == "response.failed" || type == "response.cancelled") note_failure(type, facts);
  }
}

}  // namespace

bool is_usage_event(const json::Object& event) {
  json::Array choices;
  json::Object usage;
  return json::find_array(event, "choices", choices) && choices.begin() == choices.end() &&
         json::find_object(event, "usage", usage);
}

void note_event(Route route, const json::Object& event, AnswerFacts& facts) {
  if (route == Route::kResponses) return note_responses_event(event, facts);
  json::Object usage;
  if (json::find_object(event, "usage", usage)) note_usage(route, usage, facts);
  note_timings(event, facts);
  note_error(event, facts);
  note_choices(route, event, true, facts);
}

void note_answer(Route route, const json::Object& answer, AnswerFacts& facts) {
  facts.done = true;
  if (route == Route::kResponses) return note_response(answer, facts);
  json::Object usage;
  if (json::find_object(answer, "usage", usage)) note_usage(route, usage, facts);
  note_timings(answer, facts);
  note_error(answer, facts);
  note_choices(route, answer, false, facts);
}

}  // namespace tailrace::gateway
