// Which prompts begin alike, block by block?
//
// An emulated engine has no tokens to compare, so a prompt's bytes stand for them, four to a token.
// PromptBlocks hashes them in a chain: a block's id stands for its bytes and all before. Where a
// request says that its prompt is longer than its text, the rest follows from the whole text, so
// that equal texts are equal prompts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tailrace::emulator {

class PromptBlocks {
 public:
  static constexpr std::int64_t kBytesPerToken = 4;

  /// `block_tokens` of 0: no ids.
  explicit PromptBlocks(std::int64_t block_tokens)
      : block_bytes_(static_cast<std::size_t>(block_tokens * kBytesPerToken)) {}

  void add(std::string_view bytes);
  /// A token that is given by its number.
  void add_token(std::int64_t id);

  /// The ids of a prompt of so many tokens: its whole blocks, and never more than kIdsMax, since
  /// what lies beyond is like no other prompt.
  std::vector<std::uint64_t> ids(std::int64_t prompt_tokens) const;

 private:
  static constexpr std::size_t kIdsMax = 65'536;

  std::size_t block_bytes_;
  std::string partial_;  // the block that is not complete
  std::uint64_t chain_ = 0;
  std::vector<std::uint64_t> ids_;
};

}  // namespace tailrace::emulator
