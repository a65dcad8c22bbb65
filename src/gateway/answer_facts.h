// What has an engine's answer told us so far?
//
// The facts that streamed and whole answers share, and the length that may be learned from them.
// Plain data; whoever reads the answer owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/route.h"
#include "tailrace/core/strong.h"

namespace tailrace::gateway {

struct Usage {
  Tokens prompt{0};
  Tokens completion{0};
  Tokens cached{0};  ///< of the prompt, found in the engine's prefix cache
};

struct AnswerFacts {
  std::optional<Usage> usage;       ///< the last that the engine reported
  std::int64_t counted_events = 0;  ///< streamed events that carried something generated
  int choices = 0;                  ///< distinct choice indices seen (bounded count)
  int finished_choices = 0;         ///< with a finish reason, or a completed response
  bool length_limited = false;      ///< some choice was cut at its limit
  bool failed = false;              ///< an error object or event, an abort
  bool done = false;                ///< [DONE], a terminal response event, or a whole body
  std::string error;                ///< the error's message, cut; for logs
};

/// One answer's length, ready for a predictor.
struct LengthSample {
  Tokens length{0};
  bool censored = false;   ///< the truth is at least `length`
  bool estimated = false;  ///< from counted events, not from usage
};

/// What may be learned from an answer that ended (`complete`) or was cut (the client left, the
/// engine died: censored). Nothing from a failed answer, from one without any length, or from
/// several choices at once (their lengths are only known as a sum).
std::optional<LengthSample> learnable_length(const AnswerFacts& facts, int slots, bool complete);

}  // namespace tailrace::gateway
