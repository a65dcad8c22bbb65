#include "tailrace/predict/prompt.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "predict/hash.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace tailrace::predict {
namespace {

// A fingerprint reads so much of each end of a text, and its size: the cost does not grow with the
// prompt, and two long prompts that differ only in their middles count as one.
constexpr std::size_t kFingerprintBytes = 2048;

std::string_view tail_of(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t begin = text.size() - bytes_max;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return text.substr(begin);
}

std::uint64_t fingerprint(std::span<const std::string_view> texts) {
  std::uint64_t hash = 0;
  std::size_t room = 2 * kFingerprintBytes;
  for (const auto text : texts) {
    if (text.size() <= room) {
      hash = stable_hash(text, hash);
    } else {
      const std::size_t half = room / 2;
      hash = stable_hash(text.substr(0, half), hash);
      hash = stable_hash(text.substr(text.size() - half), hash);
    }
    room -= std::min(room, text.size());
    hash = combine(hash, text.size());
  }
  return texts.empty() ? 0 : std::max<std::uint64_t>(hash, 1);  // 0 stands for none
}

}  // namespace

Tokens tokens_of_text(std::string_view text) {
  return Tokens(static_cast<std::int64_t>((text.size() + 3) / 4));
}

void set_prompt_text(std::span<const std::string_view> last_turn, RequestFeatures& features) {
  features.prompt_head.clear();
  features.prompt_tail.clear();
  for (const auto text : last_turn) {
    if (features.prompt_head.size() >= kPromptEndBytes) break;
    features.prompt_head += core::utf8_prefix(text, kPromptEndBytes - features.prompt_head.size());
  }
  for (auto it = last_turn.rbegin(); it != last_turn.rend(); ++it) {
    if (features.prompt_tail.size() >= kPromptEndBytes) break;
    features.prompt_tail.insert(0, tail_of(*it, kPromptEndBytes - features.prompt_tail.size()));
  }
  features.prompt_fingerprint = fingerprint(last_turn);
}

void EarlierAnswers::add(Tokens length) {
  last_ = std::max(length, Tokens(1));
  sum_of_logs_ += std::log(static_cast<double>(last_.count()));
  ++count_;
}

void EarlierAnswers::set(RequestFeatures& features) const {
  features.earlier_answers = count_;
  features.last_answer = last_;
  features.mean_log_answer = count_ == 0 ? 0 : sum_of_logs_ / count_;
}

}  // namespace tailrace::predict
