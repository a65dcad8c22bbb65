#include "gateway/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "gateway/json_reading.h"
#include "gateway/json_scan.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"
#include "tailrace/predict/prompt.h"

namespace tailrace::gateway {
namespace {

constexpr std::size_t kKeptParserBytes = 1 << 20;  // larger bodies get a parser of their own
constexpr std::int64_t kSlotsMax = 1 << 20;
constexpr std::int64_t kTokensPerMessage = 4;  // role and separators of a chat template
constexpr std::size_t kBeginningBytes = 1024;  // of each text of a prompt's beginning

/// The prompt as it is read: how long it is, and the texts that features come from.
struct PromptText {
  std::int64_t tokens = 0;
  int turns = 0;
  std::uint64_t system_fingerprint = 0;
  std::uint64_t beginning = 0;              ///< hash of the texts up to the first user's; 0: none
  bool beginning_complete = false;          ///< what follows differs from turn to turn
  std::vector<std::string_view> last_user;  ///< texts of the last user turn
  predict::EarlierAnswers answers;

  void add(std::string_view text) {
    tokens += predict::tokens_of_text(text).count();
    if (!beginning_complete) beginning = stable_hash(text.substr(0, kBeginningBytes), beginning);
  }
};

tl::unexpected<Error> wrong_type(std::string_view field, std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} must be {}", field, expected));
}

/// Every text of a message's content: a string, or parts of which only texts count as text.
void collect_texts(const json::Element& content, std::vector<std::string_view>& texts) {
  std::string_view text;
  json::Array parts;
  if (content.get(text) == simdjson::SUCCESS) {
    texts.push_back(text);
  } else if (content.get(parts) == simdjson::SUCCESS) {
    for (const auto part : parts) {
      json::Object object;
      if (part.get(text) == simdjson::SUCCESS) {
        texts.push_back(text);
      } else if (part.get(object) == simdjson::SUCCESS && json::find_string(object, "text", text)) {
        texts.push_back(text);
      }
    }
  }
}

/// Counts every string in a value, keys included: tool definitions reach the prompt as text.
void add_all_strings(const json::Element& value, PromptText& prompt) {
  json::Object object;
  json::Array array;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    prompt.add(text);
  } else if (value.get(array) == simdjson::SUCCESS) {
    for (const auto item : array) add_all_strings(item, prompt);
  } else if (value.get(object) == simdjson::SUCCESS) {
    for (const auto field : object) {
      prompt.add(field.key);
      add_all_strings(field.value, prompt);
    }
  }
}

void add_system(std::string_view text, PromptText& prompt) {
  prompt.system_fingerprint = stable_hash(text, prompt.system_fingerprint);
}

void read_message(const json::Object& message, PromptText& prompt) {
  prompt.tokens += kTokensPerMessage;
  ++prompt.turns;
  std::string_view role;
  json::find_string(message, "role", role);
  std::vector<std::string_view> texts;
  for (const std::string_view key : {"content", "output", "arguments"}) {
    json::Element value;
    if (json::find(message, key, value)) collect_texts(value, texts);
  }
  json::Element calls;
  const std::int64_t before = prompt.tokens;
  for (const auto text : texts) prompt.add(text);
  if (json::find(message, "tool_calls", calls)) add_all_strings(calls, prompt);
  // What the model said: an assistant's turn, or (responses) the call of a function without a role.
  std::string_view type;
  const bool call = json::find_string(message, "type", type) && type == "function_call";
  if (role == "assistant" || call) prompt.answers.add(Tokens(prompt.tokens - before));
  if (role == "system" || role == "developer") {
    for (const auto text : texts) add_system(text, prompt);
  } else if (role == "user" && !texts.empty()) {
    prompt.beginning_complete = true;
    prompt.last_user = std::move(texts);
  }
}

void read_messages(const json::Array& messages, PromptText& prompt) {
  for (const auto item : messages) {
    json::Object message;
    if (item.get(message) == simdjson::SUCCESS) read_message(message, prompt);
  }
}

Result<void> read_chat_prompt(const json::Object& root, PromptText& prompt) {
  json::Element messages;
  json::Array array;
  if (!json::find(root, "messages", messages)) return {};  // the engine knows what it says to that
  if (messages.get(array) != simdjson::SUCCESS) return wrong_type("messages", "an array");
  read_messages(array, prompt);
  return {};
}

Result<void> read_responses_prompt(const json::Object& root, PromptText& prompt) {
  std::string_view text;
  if (json::find_string(root, "instructions", text)) {
    prompt.add(text);
    add_system(text, prompt);
  }
  json::Element input;
  json::Array items;
  if (!json::find(root, "input", input)) return {};
  if (input.get(text) == simdjson::SUCCESS) {
    prompt.add(text);
    prompt.turns = 1;
    prompt.last_user = {text};
    return {};
  }
  if (input.get(items) != simdjson::SUCCESS) return wrong_type("input", "a string or an array");
  read_messages(items, prompt);
  return {};
}

/// A prompt is a text, texts, token ids, or several lists of token ids; returns how many prompts it
/// is.
Result<std::int64_t> read_completion_prompt(const json::Object& root, PromptText& prompt) {
  static constexpr std::string_view kExpected =
      "a string, an array of strings, or token ids in an array or in arrays";
  json::Element value;
  json::Array items;
  std::string_view text;
  prompt.turns = 1;
  if (!json::find(root, "prompt", value)) return 1;
  if (value.get(text) == simdjson::SUCCESS) {
    prompt.add(text);
    prompt.last_user = {text};
    return 1;
  }
  if (value.get(items) != simdjson::SUCCESS) return wrong_type("prompt", kExpected);
  std::int64_t prompts = 0;
  std::int64_t ids = 0;
  for (const auto item : items) {
    json::Array list;
    if (item.get(text) == simdjson::SUCCESS) {
      ++prompts;
      prompt.add(text);
      prompt.last_user.push_back(text);
    } else if (item.get(list) == simdjson::SUCCESS) {
      ++prompts;
      for ([[maybe_unused]] const auto id : list) ++prompt.tokens;
    } else if (item.is_number()) {
      ++ids;
    } else {
      return wrong_type("prompt", kExpected);
    }
  }
  prompt.tokens += ids;
  return std::max<std::int64_t>(1, prompts + (ids > 0 ? 1 : 0));
}

void set_text_features(const PromptText& prompt, predict::RequestFeatures& features) {
  predict::set_prompt_text(prompt.last_user, features);
  prompt.answers.set(features);
  features.system_fingerprint = prompt.system_fingerprint;
  features.turns = std::max(1, prompt.turns);
}

/// chat: response_format.type; responses: text.format.type. Plain text is no format.
std::string format_of(Route route, const json::Object& root) {
  json::Object holder;
  json::Object format;
  std::string_view type;
  if (route == Route::kResponses) {
    if (!json::find_object(root, "text", holder)) return {};
    if (!json::find_object(holder, "format", format)) return {};
  } else if (!json::find_object(root, "response_format", format)) {
    return {};
  }
  if (!json::find_string(format, "type", type) || type == "text") return {};
  return std::string(core::utf8_prefix(type, 64));
}

void set_tool_features(const json::Object& root, PromptText& prompt,
                       predict::RequestFeatures& features) {
  json::Element tools;
  json::Array array;
  if (json::find(root, "tools", tools) && tools.get(array) == simdjson::SUCCESS) {
    features.tools = static_cast<int>(array.size());
    add_all_strings(tools, prompt);
  }
  json::Element choice;
  if (json::find(root, "tool_choice", choice)) {
    std::string_view word;
    features.tool_choice_forced =
        choice.is_object() || (choice.get(word) == simdjson::SUCCESS && word == "required");
  }
}

/// How much the model is asked to think: chat's reasoning_effort, the effort of responses'
/// `reasoning`, or the switch that vLLM and SGLang pass to the chat template.
std::string effort_of(const json::Object& root) {
  std::string_view effort;
  json::Object holder;
  if (json::find_string(root, "reasoning_effort", effort)) {
    return std::string(core::utf8_prefix(effort, 64));
  }
  if (json::find_object(root, "reasoning", holder) && json::find_string(holder, "effort", effort)) {
    return std::string(core::utf8_prefix(effort, 64));
  }
  json::Element value;
  bool thinks = false;
  if (json::find_object(root, "chat_template_kwargs", holder) &&
      (json::find(holder, "enable_thinking", value) || json::find(holder, "thinking", value)) &&
      value.get(thinks) == simdjson::SUCCESS) {
    return thinks ? "thinking" : "none";
  }
  return {};
}

/// What the sampler is told. Of the wrong type it is the engine's business.
void set_sampling_features(const json::Object& root, predict::RequestFeatures& features) {
  json::Element value;
  json::Array stops;
  std::string_view stop;
  double real = 0;
  std::int64_t tokens = 0;
  if (json::find(root, "temperature", value) && value.get(real) == simdjson::SUCCESS) {
    features.temperature = real;
  }
  if (json::find(root, "top_p", value) && value.get(real) == simdjson::SUCCESS) {
    features.top_p = real;
  }
  if (json::find_clipped(root, "min_tokens", 0, kCapMax, tokens)) {
    features.min_tokens = Tokens(tokens);
  }
  if (json::find(root, "stop", value)) {
    if (value.get(stop) == simdjson::SUCCESS) features.stop_sequences = 1;
    if (value.get(stops) == simdjson::SUCCESS) {
      features.stop_sequences = static_cast<int>(stops.size());
    }
  }
  features.reasoning_effort = effort_of(root);
}

Result<void> read_flags(const json::Object& root, ParsedRequest& request) {
  json::Element value;
  std::string_view model;
  if (json::find(root, "model", value)) {
    if (value.get(model) != simdjson::SUCCESS) return wrong_type("model", "a string");
    request.model = model;
  }
  if (json::find(root, "stream", value) && value.get(request.stream) != simdjson::SUCCESS) {
    return wrong_type("stream", "true or false");
  }
  json::Object options;
  if (json::find(root, "stream_options", value)) {
    if (value.get(options) != simdjson::SUCCESS) return wrong_type("stream_options", "an object");
    json::Element include;
    bool asked = false;
    if (json::find(options, "include_usage", include) && include.get(asked) != simdjson::SUCCESS) {
      return wrong_type("stream_options.include_usage", "true or false");
    }
    request.usage_asked = asked;
  }
  return {};
}

/// The smallest of the limits that the route knows. A negative one asks for no limit (llama.cpp).
Result<std::optional<Tokens>> read_limit(Route route, const json::Object& root) {
  static constexpr std::string_view kChat[] = {"max_tokens", "max_completion_tokens"};
  static constexpr std::string_view kCompletions[] = {"max_tokens"};
  static constexpr std::string_view kResponses[] = {"max_output_tokens"};
  std::span<const std::string_view> keys = kChat;
  if (route == Route::kCompletions) keys = kCompletions;
  if (route == Route::kResponses) keys = kResponses;
  std::optional<Tokens> limit;
  for (const auto key : keys) {
    json::Element value;
    std::int64_t tokens = 0;
    if (!json::find(root, key, value)) continue;
    if (!json::as_clipped(value, -1, kCapMax, tokens)) return wrong_type(key, "a number");
    if (tokens < 0) continue;
    const Tokens clipped{std::max<std::int64_t>(1, tokens)};
    limit = limit ? std::min(*limit, clipped) : clipped;
  }
  return limit;
}

Result<std::int64_t> read_samples(const json::Object& root) {
  json::Element value;
  std::int64_t n = 1;
  std::int64_t best_of = 1;
  if (json::find(root, "n", value) && !json::as_clipped(value, 1, kSlotsMax, n)) {
    return wrong_type("n", "a number");
  }
  json::find_clipped(root, "best_of", 1, kSlotsMax, best_of);
  return std::max(n, best_of);
}

Result<ParsedRequest> read_object(Route route, const json::Object& root) {
  ParsedRequest request;
  request.route = route;
  if (auto flags = read_flags(root, request); !flags) return fail(flags.error());
  auto limit = read_limit(route, root);
  if (!limit) return fail(limit.error());
  auto samples = route == Route::kResponses ? Result<std::int64_t>(1) : read_samples(root);
  if (!samples) return fail(samples.error());

  PromptText prompt;
  std::int64_t prompts = 1;
  if (route == Route::kCompletions) {
    auto read = read_completion_prompt(root, prompt);
    if (!read) return fail(read.error());
    prompts = *read;
  } else {
    auto read = route == Route::kChat ? read_chat_prompt(root, prompt)
                                      : read_responses_prompt(root, prompt);
    if (!read) return fail(read.error());
  }

  request.prefix = prompt.beginning;
  prompt.beginning_complete = true;
  predict::RequestFeatures& features = request.features;
  set_tool_features(root, prompt, features);
  set_text_features(prompt, features);
  features.model = request.model;
  features.route = to_string(route);
  features.response_format = format_of(route, root);
  set_sampling_features(root, features);
  request.limit = *limit;
  request.slots = static_cast<int>(std::min(kSlotsMax, *samples * std::min(prompts, kSlotsMax)));
  request.prompt_tokens = features.prompt_tokens = Tokens{std::min(prompt.tokens, kCapMax)};
  return request;
}

Result<ParsedRequest> read_with(json::Reader& reader, Route route, std::string_view body) {
  auto root = reader.parse(body);
  if (!root) return fail(root.error());
  json::Object object;
  if (root->get(object) != simdjson::SUCCESS) return wrong_type("the body", "a JSON object");
  return read_object(route, object);
}

}  // namespace

Result<ParsedRequest> read_request(Route route, std::string_view body) {
  if (body.size() > kKeptParserBytes) {
    json::Reader reader(kJsonDepthMax);
    return read_with(reader, route, body);
  }
  thread_local json::Reader reader(kJsonDepthMax);
  return read_with(reader, route, body);
}

void settle_cap(ParsedRequest& request, const ModelConfig& model, Tokens default_cap) {
  std::optional<Tokens> cap = request.limit;
  if (!cap) cap = model.default_cap;
  if (model.context_length) {
    const Tokens rest{
        std::max<std::int64_t>(1, model.context_length->count() - request.prompt_tokens.count())};
    cap = cap ? std::min(*cap, rest) : rest;
  }
  request.cap = std::max(Tokens{1}, cap.value_or(default_cap));
  request.features.cap = request.cap;
  request.features.cap_is_explicit = request.limit.has_value();
}

bool needs_usage_request(const ParsedRequest& request) {
  return request.stream && !request.usage_asked && request.route != Route::kResponses;
}

std::string with_usage_request(std::string_view body) {
  static constexpr std::string_view kOption = "\"include_usage\":true";
  const auto replaced = [&](std::size_t begin, std::size_t end, std::string_view by) {
    std::string out;
    out.reserve(body.size() + by.size());
    out.append(body.substr(0, begin)).append(by).append(body.substr(end));
    return out;
  };
  const std::size_t root = skip_space(body, 0);
  if (root >= body.size() || body[root] != '{') return std::string(body);
  const auto options = last_member(body, root, "stream_options");
  if (!options) {
    const std::string member =
        fmt::format("\"stream_options\":{{{}}}{}", kOption, is_empty_object(body, root) ? "" : ",");
    return replaced(root + 1, root + 1, member);
  }
  if (options->value_begin >= body.size() || body[options->value_begin] != '{') {  // null
    return replaced(options->value_begin, options->value_end, fmt::format("{{{}}}", kOption));
  }
  const auto include = last_member(body, options->value_begin, "include_usage");
  if (include) return replaced(include->value_begin, include->value_end, "true");
  const std::string option =
      fmt::format("{}{}", kOption, is_empty_object(body, options->value_begin) ? "" : ",");
  return replaced(options->value_begin + 1, options->value_begin + 1, option);
}

}  // namespace tailrace::gateway
