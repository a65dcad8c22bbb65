#include "emulator/generation_request.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulator/prompt_blocks.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::emulator {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::int64_t kChoicesMax = 128;

/// Text of the prompt goes through here: a hash for reproducible lengths, a byte count for tokens,
/// and blocks for the prefix cache.
class PromptMeter {
 public:
  explicit PromptMeter(std::int64_t block_tokens) : blocks_(block_tokens) {}

  void add(std::string_view text) {
    hash_ = stable_hash(text, hash_);
    bytes_ += static_cast<std::int64_t>(text.size());
    blocks_.add(text);
  }
  void add_id(std::int64_t id) {
    hash_ = stable_hash(fmt::format("{} ", id), hash_);
    ++tokens_;
    blocks_.add_token(id);
  }
  /// What a chat template writes around a message.
  void add_template(std::int64_t tokens) {
    tokens_ += tokens;
    for (std::int64_t i = 0; i < tokens; ++i) blocks_.add_token(-1);
  }
  std::uint64_t hash() const { return hash_; }
  std::int64_t tokens() const {
    constexpr std::int64_t kBytes = PromptBlocks::kBytesPerToken;
    return std::max<std::int64_t>(1, tokens_ + (bytes_ + kBytes - 1) / kBytes);
  }
  const PromptBlocks& blocks() const { return blocks_; }

 private:
  PromptBlocks blocks_;
  std::uint64_t hash_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t tokens_ = 0;
};

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> read_count(element value, std::string_view field, std::int64_t max,
                        std::optional<std::int64_t>& into) {
  if (value.is_null()) {
    into.reset();
    return {};
  }
  std::int64_t count = 0;
  if (value.get(count) != simdjson::SUCCESS || count < 1 || count > max) {
    return bad(fmt::format("{} is {}; it must be a whole number from 1 to {}", field,
                           core::quoted(simdjson::minify(value)), max));
  }
  into = count;
  return {};
}

Result<void> read_flag(element value, std::string_view field, bool& into) {
  if (value.is_null()) {
    into = false;
    return {};
  }
  if (value.get(into) == simdjson::SUCCESS) return {};
  return bad(fmt::format("{} is {}; it must be true or false", field,
                         core::quoted(simdjson::minify(value))));
}

/// A message's content: text, null (a tool call) or a list of parts, of which the texts count.
Result<void> read_content(element content, PromptMeter& meter) {
  std::string_view text;
  if (content.is_null()) return {};
  if (content.get(text) == simdjson::SUCCESS) {
    meter.add(text);
    return {};
  }
  simdjson::dom::array parts;
  if (content.get(parts) != simdjson::SUCCESS) {
    return bad("messages[].content must be a string, null or a list of parts");
  }
  for (element part : parts) {
    if (part["text"].get(text) == simdjson::SUCCESS) meter.add(text);
  }
  return {};
}

Result<void> read_messages(element value, PromptMeter& meter) {
  constexpr std::int64_t kTemplateTokensPerMessage = 4;
  simdjson::dom::array messages;
  if (value.get(messages) != simdjson::SUCCESS || messages.size() == 0) {
    return bad("messages must be a list of at least one message");
  }
  for (element message : messages) {
    std::string_view role;
    if (message["role"].get(role) != simdjson::SUCCESS) {
      return bad("messages[].role must be a string");
    }
    meter.add_template(kTemplateTokensPerMessage);
    meter.add(role);
    element content;
    if (message["content"].get(content) != simdjson::SUCCESS) continue;
    if (auto ok = read_content(content, meter); !ok) return ok;
  }
  return {};
}

/// A text, or a list of token ids. Batches of prompts are an engine's business that nobody
/// schedules.
Result<void> read_prompt(element value, PromptMeter& meter) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    meter.add(text);
    return {};
  }
  simdjson::dom::array ids;
  if (value.get(ids) != simdjson::SUCCESS) {
    return bad("prompt must be a string or a list of token ids");
  }
  for (element id : ids) {
    std::int64_t token = 0;
    if (id.get(token) != simdjson::SUCCESS) {
      return bad(
          "prompt must be a string or a list of token ids; lists of prompts are not emulated");
    }
    meter.add_id(token);
  }
  return {};
}

struct Fields {
  explicit Fields(std::int64_t block) : block_tokens(block), meter(block) {}

  GenerationRequest request;
  std::int64_t block_tokens;
  PromptMeter meter;
  bool has_prompt = false;
  std::optional<std::int64_t> n;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> max_completion_tokens;
  std::optional<std::int64_t> prompt_tokens;
};

Result<void> read_stream_options(element value, Fields& into) {
  element usage;
  if (value.is_null() || value["include_usage"].get(usage) != simdjson::SUCCESS) return {};
  return read_flag(usage, "stream_options.include_usage", into.request.include_usage);
}

Result<void> read_priority(element value, Fields& into) {
  into.request.priority = 0;
  if (value.is_null()) return {};
  std::int64_t priority = 0;
  if (value.get(priority) != simdjson::SUCCESS || priority < std::numeric_limits<int>::min() ||
      priority > std::numeric_limits<int>::max()) {
    return bad(
        fmt::format("priority is {}; it must be a whole number of 32 bits, lower is more "
                    "urgent",
                    core::quoted(simdjson::minify(value))));
  }
  into.request.priority = static_cast<int>(priority);
  return {};
}

Result<void> read_fault(element value, Fields& into) {
  std::string_view name;
  if (value.get(name) != simdjson::SUCCESS) return bad("emulator_fault must be a string");
  auto fault = parse_fault(name);
  if (!fault) return fail(fault.error());
  into.request.fault = *fault;
  return {};
}

Result<void> read_field(std::string_view key, element value, Fields& into) {
  constexpr std::int64_t kTokensMax = std::int64_t{1} << 40;
  if (key == "model") {
    std::string_view model;
    if (value.get(model) != simdjson::SUCCESS) return bad("model must be a string");
    into.request.model = model;
    return {};
  }
  if (key == "messages" || key == "prompt") {
    if ((key == "messages") != into.request.chat) return {};
    into.meter = PromptMeter(into.block_tokens);
    into.has_prompt = true;
    return into.request.chat ? read_messages(value, into.meter) : read_prompt(value, into.meter);
  }
  if (key == "stream") return read_flag(value, key, into.request.stream);
  if (key == "stream_options") return read_stream_options(value, into);
  if (key == "n") return read_count(value, key, kChoicesMax, into.n);
  if (key == "max_tokens") return read_count(value, key, kTokensMax, into.max_tokens);
  if (key == "max_completion_tokens") {
    return read_count(value, key, kTokensMax, into.max_completion_tokens);
  }
  if (key == "emulator_output_tokens") {
    return read_count(value, key, kTokensMax, into.request.output_tokens);
  }
  if (key == "emulator_prompt_tokens")
    return read_count(value, key, kTokensMax, into.prompt_tokens);
  if (key == "priority") return read_priority(value, into);
  if (key == "emulator_fault") return read_fault(value, into);
  return {};
}

}  // namespace

Result<GenerationRequest> parse_generation_request(std::string_view body, bool chat,
                                                   std::int64_t block_tokens) {
  simdjson::dom::parser parser;
  simdjson::dom::object document;
  if (const auto error = parser.parse(body.data(), body.size()).get(document);
      error != simdjson::SUCCESS) {
    return bad(fmt::format("the body is not a JSON object: {}", simdjson::error_message(error)));
  }
  Fields fields(block_tokens);
  fields.request.chat = chat;
  for (const auto& [key, value] : document) {
    if (auto ok = read_field(key, value, fields); !ok) return fail(ok.error());
  }
  if (!fields.has_prompt) {
    return bad(chat ? "messages is missing" : "prompt is missing");
  }
  GenerationRequest request = std::move(fields.request);
  request.n = fields.n.value_or(1);
  request.prompt_tokens = fields.prompt_tokens.value_or(fields.meter.tokens());
  request.prompt_hash = fields.meter.hash();
  request.prefix_ids = fields.meter.blocks().ids(request.prompt_tokens);
  // vLLM prefers the newer name where both are given.
  request.max_tokens =
      fields.max_completion_tokens ? fields.max_completion_tokens : fields.max_tokens;
  return request;
}

std::int64_t answer_tokens(const GenerationRequest& request, const LengthDraw& draw,
                           std::int64_t choice, std::int64_t cap) {
  if (request.output_tokens) return std::min(*request.output_tokens, cap);
  const Rng prompt(request.prompt_hash ^ draw.seed);
  const double mu = draw.mu + draw.mu_sd * prompt.fork("mu").normal();
  Rng sample = prompt.fork(fmt::format("sample {}", choice));
  const double tokens = std::ceil(std::exp(mu + draw.sigma * sample.student_t(draw.nu)));
  if (!(tokens < static_cast<double>(cap))) return cap;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(tokens));
}

}  // namespace tailrace::emulator
