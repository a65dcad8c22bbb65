#include "gateway/answer_facts.h"

namespace tailrace::gateway {

std::optional<LengthSample> learnable_length(const AnswerFacts& facts, int slots, bool complete) {
  if (facts.failed || slots != 1 || facts.choices > 1) return std::nullopt;
  LengthSample sample;
  // An engine that reports zero for an answer that we saw being written reports nothing.
  if (facts.usage && facts.usage->completion.count() > 0) {
    sample.length = facts.usage->completion;
  } else if (facts.counted_events > 0) {
    sample.length = Tokens{facts.counted_events};
    sample.estimated = true;
  } else {
    return std::nullopt;
  }
  sample.censored = !complete || facts.length_limited || facts.finished_choices == 0;
  return sample;
}

}  // namespace tailrace::gateway
