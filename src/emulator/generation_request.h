// What does a client want generated, as far as an engine has to know?
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/emulator/emulator.h"

namespace tailrace::emulator {

struct GenerationRequest {
  bool chat = true;
  bool stream = false;
  bool include_usage = false;
  std::string model;
  std::int64_t n = 1;
  std::int64_t prompt_tokens = 1;
  std::uint64_t prompt_hash = 0;
  int priority = 0;  ///< vLLM's: lower is more urgent
  /// One for each block of the prompt, where they were asked for: a hash of the bytes up to its
  /// end.
  std::vector<std::uint64_t> prefix_ids;
  std::optional<std::int64_t> max_tokens;     ///< the client's own limit, ≥ 1
  std::optional<std::int64_t> output_tokens;  ///< "emulator_output_tokens", ≥ 1
  FaultPlan fault;                            ///< "emulator_fault"
};

/// Reads the body of a chat or text completion the way vLLM does: unknown fields are ignored, of
/// duplicate keys the last counts, null counts as absent. With `block_tokens` > 0 the prompt gets
/// prefix ids for blocks of so many tokens, as PromptBlocks says. Errors: kInvalidArgument (answer
/// 400).
Result<GenerationRequest> parse_generation_request(std::string_view body, bool chat,
                                                   std::int64_t block_tokens = 0);

/// The answer's length in tokens: the request's own, else drawn from the prompt's hash; `choice` is
/// the index among n. At least 1, at most `cap`.
std::int64_t answer_tokens(const GenerationRequest& request, const LengthDraw& draw,
                           std::int64_t choice, std::int64_t cap);

}  // namespace tailrace::emulator
