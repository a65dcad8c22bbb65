// What do the bytes of an answer look like? The shapes that vLLM sends, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/generation_request.h"

namespace tailrace::emulator {

/// The text of the k-th token (from 0) of an answer: words that only the prompt's hash decides.
std::string_view token_text(std::uint64_t text_seed, std::int64_t index);

struct Choice {
  std::int64_t tokens = 0;
  bool cut = false;  ///< ended by the limit: finish reason "length" instead of "stop"
};

/// Everything that the chunks of one answer share. Texts are written into JSON without escaping
/// where they are our own words.
class AnswerWriter {
 public:
  AnswerWriter(const GenerationRequest& request, std::string id, std::int64_t created_s);

  /// The chunk that opens a choice of a streamed chat ("role"); nothing for text completions.
  void append_opening(std::string& to, std::int64_t choice) const;
  /// Tokens [from, until) of a choice that has `choice.tokens` in all, one event each; the last one
  /// carries the finish reason.
  void append_tokens(std::string& to, std::int64_t index, const Choice& choice, std::int64_t from,
                     std::int64_t until) const;
  void append_usage(std::string& to, std::int64_t completion_tokens) const;
  static void append_done(std::string& to);
  static void append_error(std::string& to, std::string_view message);

  /// The whole answer of a request without streaming.
  std::string whole(const std::vector<Choice>& choices) const;

 private:
  std::uint64_t text_seed(std::int64_t choice) const;
  std::string usage(std::int64_t completion_tokens) const;

  bool chat_;
  std::uint64_t prompt_hash_;
  std::int64_t prompt_tokens_;
  std::string chunk_head_;  // data: {"id":…,"object":…,"created":…,"model":…,"choices":[
  std::string whole_head_;
};

/// The body of a refusal, as vLLM writes it.
std::string error_body(int status, std::string_view type, std::string_view message);
std::string models_body(std::string_view model, std::int64_t created_s, std::int64_t max_model_len);

}  // namespace tailrace::emulator
