// What did this very prompt get before?
//
// Agents, retries and evaluations repeat prompts to the letter. The lengths of a prompt's last few
// dozen answers, as bins, by the prompt's hash; no text. One cache line a prompt, a table of fixed
// size in which a prompt seen once gives way first. One thread; about 0.1 µs, 3 µs for a prompt's
// law.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predict/image.h"
#include "predict/length_bins.h"

namespace tailrace::predict {

class PromptMemory {
 public:
  PromptMemory() : prompts_(kPrompts) {}

  /// The law of its answers, `parent` counting as `strength` answers; false, and `law` untouched,
  /// for a prompt that is not known.
  bool law(std::uint64_t key, const Bins& parent, float strength, Bins& law) const;
  void add(std::uint64_t key, std::size_t bin);

  void write(ImageWriter& out) const;
  bool read(ImageReader& in);

  static constexpr std::size_t kPrompts = 32768;
  static constexpr std::size_t kAnswers = 52;  ///< the last ones of each

 private:
  struct Prompt {
    std::uint64_t key = 0;     // 0: empty
    std::uint16_t credit = 0;  // how long strangers must knock before it gives way
    std::uint8_t size = 0;
    std::uint8_t next = 0;
    std::array<std::uint8_t, kAnswers> bins{};
  };
  static_assert(sizeof(Prompt) == 64);

  std::vector<Prompt> prompts_;
};

}  // namespace tailrace::predict
