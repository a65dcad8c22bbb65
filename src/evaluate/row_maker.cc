#include "evaluate/row_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "predict/hash.h"
#include "tailrace/core/text.h"
#include "tailrace/predict/prompt.h"

namespace tailrace::evaluate {
namespace {

constexpr std::int64_t kTokensPerMessage = 4;  // role and separators of a chat template
constexpr std::size_t kNameBytesMax = 256;

Tokens tokens_of_message(std::span<const std::string_view> texts) {
  std::int64_t tokens = kTokensPerMessage;
  for (const auto text : texts) tokens += predict::tokens_of_text(text).count();
  return Tokens(tokens);
}

Result<std::vector<std::string_view>> texts_of(const LineFields& message) {
  std::vector<std::string_view> texts;
  if (const auto text = message.text("content"); text) {
    if (*text) texts.push_back(**text);
    return texts;
  }
  const auto parts = message.array("content");
  if (!parts) {
    return fail(ErrorCode::kInvalidArgument,
                "messages[].content is neither a text nor a list of parts; give one of them");
  }
  for (const auto part : **parts) {
    simdjson::dom::object object;
    if (part.get(object) != simdjson::SUCCESS) continue;
    const auto text = LineFields(object).text("text");
    if (!text) return fail(text.error().with_context("messages[].content[]"));
    if (*text) texts.push_back(**text);
  }
  return texts;
}

Result<void> read_messages(simdjson::dom::array messages, Asked& asked) {
  predict::EarlierAnswers answers;
  std::vector<std::string_view> last_user;
  predict::RequestFeatures& f = asked.features;
  std::int64_t tokens = 0;
  f.turns = 0;
  for (const auto item : messages) {
    simdjson::dom::object object;
    if (item.get(object) != simdjson::SUCCESS) {
      return fail(ErrorCode::kInvalidArgument,
                  "messages holds what is no object; give {\"role\", \"content\"}");
    }
    const LineFields message(object);
    const auto role = message.required_text("role");
    if (!role) return fail(role.error().with_context("messages[]"));
    auto texts = texts_of(message);
    if (!texts) return fail(texts.error());
    ++f.turns;
    const Tokens size = tokens_of_message(*texts);
    tokens += size.count();
    for (const auto text : *texts) asked.prompt_hash = stable_hash(text, asked.prompt_hash);
    if (*role == "assistant") answers.add(Tokens(size.count() - kTokensPerMessage));
    if (*role == "system" || *role == "developer") {
      for (const auto text : *texts) {
        f.system_fingerprint = stable_hash(text, f.system_fingerprint);
      }
    }
    if (*role == "user" && !texts->empty()) last_user = std::move(*texts);
  }
  f.turns = std::max(1, f.turns);
  predict::set_prompt_text(last_user, f);
  answers.set(f);
  if (f.prompt_tokens.count() == 0) f.prompt_tokens = Tokens(std::min(tokens, kTokensMax));
  return {};
}

Result<void> read_names(const LineFields& fields, predict::RequestFeatures& f) {
  f.route = "chat";
  const std::pair<const char*, std::string*> names[] = {{"model", &f.model},
                                                        {"tenant", &f.tenant},
                                                        {"route", &f.route},
                                                        {"response_format", &f.response_format},
                                                        {"reasoning_effort", &f.reasoning_effort}};
  for (const auto& [field, into] : names) {
    const auto text = fields.text(field);
    if (!text) return fail(text.error());
    if (*text) *into = core::utf8_prefix(**text, kNameBytesMax);
  }
  const auto system = fields.text("system");
  if (!system) return fail(system.error());
  if (*system) f.system_fingerprint = stable_hash(**system);
  return {};
}

Result<void> read_sampling(const LineFields& fields, predict::RequestFeatures& f) {
  const auto temperature = fields.real("temperature", 0, 100);
  if (!temperature) return fail(temperature.error());
  const auto top_p = fields.real("top_p", 0, 1);
  if (!top_p) return fail(top_p.error());
  const auto prompt_tokens = fields.whole("prompt_tokens", 0, kTokensMax);
  if (!prompt_tokens) return fail(prompt_tokens.error());
  f.temperature = *temperature;
  f.top_p = *top_p;
  f.prompt_tokens = Tokens(prompt_tokens->value_or(0));
  return {};
}

}  // namespace

void set_single_turn(std::string_view prompt, predict::RequestFeatures& features) {
  predict::set_prompt_text(std::span(&prompt, 1), features);
  features.turns = 1;
  if (features.prompt_tokens.count() == 0) {
    features.prompt_tokens = std::min(tokens_of_message(std::span(&prompt, 1)), Tokens(kTokensMax));
  }
}

Result<Asked> read_asked(const LineFields& fields) {
  Asked asked;
  if (auto read = read_names(fields, asked.features); !read) return fail(read.error());
  if (auto read = read_sampling(fields, asked.features); !read) return fail(read.error());
  const auto prompt = fields.text("prompt");
  if (!prompt) return fail(prompt.error());
  const auto messages = fields.array("messages");
  if (!messages) return fail(messages.error());
  if (*prompt && *messages) {
    return fail(ErrorCode::kInvalidArgument, "prompt and messages are both given; give one");
  }
  if (*prompt) {
    set_single_turn(**prompt, asked.features);
    asked.prompt_hash = stable_hash(**prompt);
  } else if (*messages) {
    if (auto read = read_messages(**messages, asked); !read) return fail(read.error());
  }
  return asked;
}

Result<void> RowMaker::add(const Asked& asked, std::optional<std::int64_t> cap, std::int64_t length,
                           bool censored) {
  if (out_.rows.size() >= kRowsMax) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("more than {} rows; evaluate a part of the file", kRowsMax));
  }
  Row row;
  row.features = asked.features;
  row.features.model = core::utf8_prefix(asked.features.model, kNameBytesMax);
  row.features.cap = cap ? Tokens(*cap) : options_.cap;
  row.features.cap_is_explicit = cap.has_value();
  row.truth.length = std::min(Tokens(length), row.features.cap);
  row.truth.censored = censored || row.truth.length == row.features.cap;
  row.group = predict::combine(asked.prompt_hash, stable_hash(asked.features.model));
  out_.rows.push_back(std::move(row));
  return {};
}

}  // namespace tailrace::evaluate
