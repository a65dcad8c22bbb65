// How does a conversation become what a predictor looks at?
//
// The one place where text turns into RequestFeatures, so that the gateway, the evaluation and the
// command line ask a predictor the same thing. Keeps the ends of the last user turn, hashes of the
// rest, and the lengths of what the model has said before. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tailrace/predict/predictor.h"

namespace tailrace::predict {

inline constexpr std::size_t kPromptEndBytes = 512;  ///< of prompt_head and prompt_tail

/// About how many tokens a text has: a quarter of its bytes, rounded up.
Tokens tokens_of_text(std::string_view text);

/// Sets prompt_head, prompt_tail and prompt_fingerprint from the texts of the last user turn, cut
/// between characters.
void set_prompt_text(std::span<const std::string_view> last_turn, RequestFeatures& features);

/// Reads the answers of a conversation in order and sets what the features say of them.
class EarlierAnswers {
 public:
  void add(Tokens length);  ///< of one answer, at least 1 counts
  void set(RequestFeatures& features) const;

 private:
  int count_ = 0;
  Tokens last_{0};
  double sum_of_logs_ = 0;
};

}  // namespace tailrace::predict
